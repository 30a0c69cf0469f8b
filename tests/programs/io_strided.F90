! MPI-IO from Fortran without HDF5: io_strided NAME. Ranks interleave ten integers each through a view and read them
! back. Built with -DUSE_F08 it uses mpi_f08.
program io_strided
#ifdef USE_F08
  use mpi_f08
#else
  use mpi
#endif
  implicit none
#ifdef USE_F08
  type(MPI_File) :: file
  type(MPI_Status) :: status
  type(MPI_Datatype) :: every
#else
  integer :: file, status(MPI_STATUS_SIZE), every
#endif
  character(len=256) :: name
  integer :: error, rank, ranks, written(10), seen(10), count, i
  integer(kind=MPI_OFFSET_KIND) :: first, at, length

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, name)
  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_RDWR + MPI_MODE_CREATE, MPI_INFO_NULL, file, error)
  if (error /= MPI_SUCCESS) stop 1
  written = [(rank * 100 + i, i = 1, 10)]
  call MPI_Type_vector(10, 1, ranks, MPI_INTEGER, every, error)
  call MPI_Type_commit(every, error)
  first = 4 * rank
  call MPI_File_set_view(file, first, MPI_INTEGER, every, 'native', MPI_INFO_NULL, error)
  if (error /= MPI_SUCCESS) stop 2
  call MPI_File_write_all(file, written, 10, MPI_INTEGER, status, error)
  call MPI_Get_count(status, MPI_INTEGER, count, error)
  if (count /= 10) stop 3
  at = 0
  call MPI_File_read_at_all(file, at, seen, 10, MPI_INTEGER, status, error)
  if (error /= MPI_SUCCESS .or. any(written /= seen)) stop 4
  call MPI_Barrier(MPI_COMM_WORLD, error)
  call MPI_File_get_size(file, length, error)
  if (length /= 40 * ranks) stop 5
  call MPI_File_close(file, error)
  if (file /= MPI_FILE_NULL) stop 6
  call MPI_Type_free(every, error)
  if (rank == 0) print '(a)', 'Fortran agrees'
  call MPI_Finalize(error)
end program io_strided
