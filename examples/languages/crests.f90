! Follows the wave's crest along every column, with the columns shared out among MPI ranks and read collectively.
! Writes crests.csv: the step, the greatest height, and the mean of the heights squared.
program crests
   use, intrinsic :: iso_fortran_env, only: real64
   use mpi
   use hdf5
   implicit none
   integer, parameter :: steps = 5
   integer :: rank, ranks, error, step, first, mine, unit
   integer(hid_t) :: access, file, dataset, space, memory, transfer
   integer(hsize_t) :: extent(2), most(2), start(2), count(2)
   real(real64), allocatable :: height(:, :)
   real(real64) :: greatest, squares, energy
   character(32) :: name

   call mpi_init(error)
   call mpi_comm_rank(mpi_comm_world, rank, error)
   call mpi_comm_size(mpi_comm_world, ranks, error)
   call h5open_f(error)
   call h5pcreate_f(h5p_file_access_f, access, error)
   call h5pset_fapl_mpio_f(access, mpi_comm_world, mpi_info_null, error)
   call h5pcreate_f(h5p_dataset_xfer_f, transfer, error)
   call h5pset_dxpl_mpio_f(transfer, h5fd_mpio_collective_f, error)
   if (rank == 0) open (newunit=unit, file="crests.csv")

   do step = 0, steps - 1
      write (name, '("wave-", i0, ".h5")') step
      call h5fopen_f(trim(name), h5f_acc_rdonly_f, file, error, access)
      if (error /= 0) call mpi_abort(mpi_comm_world, 1, error)
      call h5dopen_f(file, "height", dataset, error)
      call h5dget_space_f(dataset, space, error)
      call h5sget_simple_extent_dims_f(space, extent, most, error)

      first = int(extent(1))*rank/ranks
      mine = int(extent(1))*(rank + 1)/ranks - first
      start = [int(first, hsize_t), 0_hsize_t]
      count = [int(mine, hsize_t), extent(2)]
      allocate (height(count(1), count(2)))
      call h5sselect_hyperslab_f(space, h5s_select_set_f, start, count, error)
      call h5screate_simple_f(2, count, memory, error)
      call h5dread_f(dataset, h5t_native_double, height, count, error, memory, space, transfer)
      if (error /= 0) call mpi_abort(mpi_comm_world, 1, error)

      call mpi_reduce(maxval(height), greatest, 1, mpi_double_precision, mpi_max, 0, mpi_comm_world, error)
      call mpi_reduce(sum(height**2), squares, 1, mpi_double_precision, mpi_sum, 0, mpi_comm_world, error)
      if (rank == 0) then
         energy = squares/real(extent(1)*extent(2), real64)
         write (unit, '(i0, ",", f0.12, ",", f0.12)') step, greatest, energy
         print '("step ", i0, ": crest ", f8.6, ", energy ", f8.6)', step, greatest, energy
      end if

      deallocate (height)
      call h5sclose_f(memory, error)
      call h5sclose_f(space, error)
      call h5dclose_f(dataset, error)
      call h5fclose_f(file, error)
   end do

   if (rank == 0) close (unit)
   call h5pclose_f(transfer, error)
   call h5pclose_f(access, error)
   call h5close_f(error)
   call mpi_finalize(error)
end program crests
