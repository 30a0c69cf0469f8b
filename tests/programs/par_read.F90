! Parallel HDF5 consumer in Fortran: par_read PATTERN STEPS, the pattern as in par_write.F90. Each rank reads columns,
! where the producer wrote rows, and checks every value. Built with -DUSE_F08 it uses mpi_f08.
program par_read
#ifdef USE_F08
  use mpi_f08
#else
  use mpi
#endif
  use hdf5
  implicit none
  integer, parameter :: columns = 12, fill = -7
  character(len=256) :: pattern, text
  integer :: rank, ranks, rows, first, mine, step, steps, error, c, r, wrong
  integer(hid_t) :: access, file
  real(kind=8) :: total, everywhere

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, pattern)
  call get_command_argument(2, text)
  read (text, *) steps
  first = columns * rank / ranks
  mine = columns * (rank + 1) / ranks - first
  wrong = 0
  call h5open_f(error)
  do step = 0, steps - 1
    call h5pcreate_f(H5P_FILE_ACCESS_F, access, error)
#ifdef USE_F08
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD%MPI_VAL, MPI_INFO_NULL%MPI_VAL, error)
#else
    call h5pset_fapl_mpio_f(access, MPI_COMM_WORLD, MPI_INFO_NULL, error)
#endif
    call h5fopen_f(trim(step_name(pattern, step)), H5F_ACC_RDONLY_F, file, error, access_prp=access)
    if (error /= 0) stop 1
    total = 0
    call check_rows()
    call check_chunks()
    call h5fclose_f(file, error)
    call h5pclose_f(access, error)
    call MPI_Reduce(total, everywhere, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, error)
    if (rank == 0) print '(a,i0,a,f0.2)', 'step ', step, ' sum ', everywhere
  end do
  call h5close_f(error)
  if (wrong > 0) then
    print '(i0,a)', wrong, ' wrong values'
    stop 1
  end if
  if (rank == 0) print '(a,i0,a)', 'read ', steps, ' steps'
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

  ! Opens a dataset and selects this rank's columns of all rows.
  subroutine select_columns(name, set, space, memory, list, count)
    character(len=*), intent(in) :: name
    integer(hid_t), intent(out) :: set, space, memory, list
    integer(hsize_t), intent(out) :: count(2)
    integer(hsize_t) :: dims(2), most(2), start(2)
    call h5dopen_f(file, name, set, error)
    if (error /= 0) stop 1
    call h5dget_space_f(set, space, error)
    call h5sget_simple_extent_dims_f(space, dims, most, error)
    rows = int(dims(2))
    start = [first, 0]
    count = [mine, rows]
    call h5screate_simple_f(2, count, memory, error)
    call h5sselect_hyperslab_f(space, H5S_SELECT_SET_F, start, count, error)
    call h5pcreate_f(H5P_DATASET_XFER_F, list, error)
    call h5pset_dxpl_mpio_f(list, H5FD_MPIO_COLLECTIVE_F, error)
  end subroutine select_columns

  subroutine release(set, space, memory, list)
    integer(hid_t), intent(in) :: set, space, memory, list
    call h5pclose_f(list, error)
    call h5sclose_f(memory, error)
    call h5sclose_f(space, error)
    call h5dclose_f(set, error)
  end subroutine release

  subroutine check_rows()
    real(kind=8), allocatable :: values(:, :)
    integer(hid_t) :: set, space, memory, list
    integer(hsize_t) :: count(2)
    call select_columns('rows', set, space, memory, list, count)
    allocate (values(mine, rows))
    call h5dread_f(set, H5T_NATIVE_DOUBLE, values, count, error, memory, space, list)
    if (error /= 0) stop 1
    do r = 1, rows
      do c = 1, mine
        if (values(c, r) /= step * 1d6 + (r - 1) * 1000d0 + (first + c - 1)) wrong = wrong + 1
        total = total + values(c, r)
      end do
    end do
    call release(set, space, memory, list)
  end subroutine check_rows

  subroutine check_chunks()
    integer, allocatable :: values(:, :)
    integer :: expected
    integer(hid_t) :: set, space, memory, list
    integer(hsize_t) :: count(2)
    call select_columns('chunks', set, space, memory, list, count)
    allocate (values(mine, rows))
    call h5dread_f(set, H5T_NATIVE_INTEGER, values, count, error, memory, space, list)
    if (error /= 0) stop 1
    do r = 1, rows
      do c = 1, mine
        expected = step * 100000 + (r - 1) * 100 + (first + c - 1)
        if (mod(r - 1, 4) == 3) expected = fill
        if (values(c, r) /= expected) wrong = wrong + 1
        total = total + values(c, r)
      end do
    end do
    call release(set, space, memory, list)
  end subroutine check_chunks

end program par_read
