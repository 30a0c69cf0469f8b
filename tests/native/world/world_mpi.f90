! `use mpi`: the world is the task, in calls, attributes, error handlers and communicators made from it.
! usage: world_mpi SIZE
program world_mpi
  use mpi
  implicit none
  integer :: expected, rank, size, error, total, half, grid, group, part, provided, handler, result, i
  integer :: counts(64), all(64)
  integer(kind=MPI_ADDRESS_KIND) :: value
  logical :: flag
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=16) :: argument

  call get_command_argument(1, argument)
  read (argument, *) expected
  call MPI_Initialized(flag, error)
  call check(.not. flag, 'not initialised before')
  call MPI_Init_thread(MPI_THREAD_SERIALIZED, provided, error)
  call check(provided == MPI_THREAD_SERIALIZED, 'thread level')
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, size, error)
  call check(size == expected, 'size')
  call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
  call check(total == size * (size - 1) / 2, 'allreduce')
  counts = 1
  all = -1
  call MPI_Allgatherv(rank, 1, MPI_INTEGER, all, counts, [(i, i=0, 63)], MPI_INTEGER, MPI_COMM_WORLD, error)
  call check(all(size) == size - 1 .and. all(size + 1) == -1, 'allgatherv')
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, error)
  call MPI_Comm_size(half, part, error)
  call check(part == (size + 1 - mod(rank, 2)) / 2, 'split')
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [size], [.true.], .false., grid, error)
  call MPI_Comm_size(grid, part, error)
  call check(part == size, 'cart')
  call MPI_Comm_compare(MPI_COMM_WORLD, grid, result, error)
  call check(result == MPI_CONGRUENT, 'compare')
  call MPI_Comm_group(MPI_COMM_WORLD, group, error)
  call MPI_Group_size(group, part, error)
  call check(part == size, 'group')
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, error)
  call check(flag .and. value >= 32767, 'tag_ub')
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, part, error)
  call check(name(1:part) == 'MPI_COMM_WORLD', 'name')
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, error)
  call MPI_Comm_get_errhandler(MPI_COMM_WORLD, handler, error)
  call check(handler == MPI_ERRORS_RETURN, 'errhandler')
  call MPI_Send(rank, 1, MPI_INTEGER, size, 0, MPI_COMM_WORLD, error)
  call check(error /= MPI_SUCCESS, 'a rank beyond the world')
  call MPI_Comm_size(MPI_COMM_SELF, part, error)
  call check(part == 1, 'self')
  call MPI_Finalize(error)
  call MPI_Finalized(flag, error)
  call check(flag, 'finalised after')
  print '(a,i0,a,i0,a)', 'world of ', size, ': rank ', rank, ' is well'

contains

  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    print '(a,i0,2a)', 'rank ', rank, ': not so: ', what
    call MPI_Abort(MPI_COMM_WORLD, 9, error)
  end subroutine check
end program world_mpi
