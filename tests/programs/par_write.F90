! Parallel HDF5 producer in Fortran: par_write PATTERN STEPS, where the pattern holds one #, replaced by the step (four
! digits). Built with -DUSE_F08 it uses mpi_f08. Dimensions are those of grid.h reversed: /rows is COLUMNS x rows here.
program par_write
#ifdef USE_F08
  use mpi_f08
#else
  use mpi
#endif
  use hdf5
  implicit none
  integer, parameter :: columns = 12, fill = -7
  character(len=256) :: pattern, text
  integer :: rank, ranks, rows, first, mine, step, steps, error, c, r
  integer(hid_t) :: access, file

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, pattern)
  call get_command_argument(2, text)
  read (text, *) steps
  rows = 4 * ranks + 1
  first = 4 * rank
  mine = merge(5, 4, rank == ranks - 1)
  call h5open_f(error)
  do step = 0, steps - 1
    call h5pcreate_f(H5P_FILE_ACCESS_F, access, error)
#ifdef USE_F08
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD%MPI_VAL, MPI_INFO_NULL%MPI_VAL, error)
#else
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD, MPI_INFO_NULL, error)
#endif
    call h5fcreate_f(trim(step_name(pattern, step)), H5F_ACC_TRUNC_F, file, error, access_prp=access)
    if (error /= 0) stop 1
    call write_rows()
    call write_chunks()
    call write_step()
    call h5fclose_f(file, error)
    if (error /= 0) stop 1
    call h5pclose_f(access, error)
  end do
  call h5close_f(error)
  if (rank == 0) print '(a,i0,a)', 'wrote ', steps, ' steps'
  call MPI_Finalize(error)

contains

  function step_name(with_hash, number) result(name)
    character(len=*), intent(in) :: with_hash
    integer, intent(in) :: number
    character(len=256) :: name
    character(len=4) :: digits
    integer :: at
    at = index(with_hash, '#')
    name = with_hash
    if (at > 0) then
      write (digits, '(i4.4)') number
      name = with_hash(:at - 1)//digits//trim(with_hash(at + 1:))
    end if
  end function step_name

  subroutine write_rows()
    real(kind=8) :: values(columns, mine)
    integer(hsize_t) :: dims(2), start(2), count(2)
    integer(hid_t) :: space, memory, set, list
    do r = 1, mine
      do c = 1, columns
        values(c, r) = step * 1d6 + (first + r - 1) * 1000d0 + (c - 1)
      end do
    end do
    dims = [columns, rows]
    start = [0, first]
    count = [columns, mine]
    call h5screate_simple_f(2, dims, space, error)
    call h5screate_simple_f(2, count, memory, error)
    call h5dcreate_f(file, 'rows', H5T_NATIVE_DOUBLE, space, set, error)
    call h5sselect_hyperslab_f(space, H5S_SELECT_SET_F, start, count, error)
    call h5pcreate_f(H5P_DATASET_XFER_F, list, error)
    call h5pset_dxpl_mpio_f(list, H5FD_MPIO_COLLECTIVE_F, error)
    call h5dwrite_f(set, H5T_NATIVE_DOUBLE, values, count, error, memory, space, list)
    if (error /= 0) stop 1
    call h5pclose_f(list, error)
    call h5dclose_f(set, error)
    call h5sclose_f(memory, error)
    call h5sclose_f(space, error)
  end subroutine write_rows

  ! Chunks across rank borders, independent transfers, every fourth row never written.
  subroutine write_chunks()
    integer :: values(columns, 1)
    integer(hsize_t) :: dims(2), chunk(2), start(2), count(2)
    integer(hid_t) :: space, memory, set, plist
    dims = [columns, rows]
    chunk = [5, 3]
    count = [columns, 1]
    call h5screate_simple_f(2, dims, space, error)
    call h5screate_simple_f(2, count, memory, error)
    call h5pcreate_f(H5P_DATASET_CREATE_F, plist, error)
    call h5pset_chunk_f(plist, 2, chunk, error)
    call h5pset_fill_value_f(plist, H5T_NATIVE_INTEGER, fill, error)
    call h5dcreate_f(file, 'chunks', H5T_NATIVE_INTEGER, space, set, error, plist)
    do r = first, first + mine - 1
      if (mod(r, 4) == 3) cycle
      do c = 1, columns
        values(c, 1) = step * 100000 + r * 100 + (c - 1)
      end do
      start = [0, r]
      call h5sselect_hyperslab_f(space, H5S_SELECT_SET_F, start, count, error)
      call h5dwrite_f(set, H5T_NATIVE_INTEGER, values, count, error, memory, space)
      if (error /= 0) stop 1
    end do
    call h5pclose_f(plist, error)
    call h5dclose_f(set, error)
    call h5sclose_f(memory, error)
    call h5sclose_f(space, error)
  end subroutine write_chunks

  subroutine write_step()
    integer(hid_t) :: space, attribute
    integer(hsize_t) :: one(1)
    one = 1
    call h5screate_f(H5S_SCALAR_F, space, error)
    call h5acreate_f(file, 'step', H5T_NATIVE_INTEGER, space, attribute, error)
    call h5awrite_f(attribute, H5T_NATIVE_INTEGER, step, one, error)
    call h5aclose_f(attribute, error)
    call h5sclose_f(space, error)
  end subroutine write_step

end program par_write
