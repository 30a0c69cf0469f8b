! HDF5's Fortran interfaces: that of fixed types, and that of Fortran 2003 with addresses and derived types.
module telling
  use, intrinsic :: iso_c_binding
  use hdf5
  implicit none

  interface
    subroutine say_text(text, length) bind(c)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: text(*)
      integer(c_int), value :: length
    end subroutine say_text
    subroutine tried_fortran(call, length, result) bind(c)
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: call(*)
      integer(c_int), value :: length, result
    end subroutine tried_fortran
  end interface

contains

  ! A name that C gave.
  function name_of(file) result(name)
    character(kind=c_char), intent(in) :: file(*)
    character(len=:), allocatable :: name
    integer :: n
    n = 0
    do while (file(n + 1) /= c_null_char)
      n = n + 1
    end do
    allocate (character(len=n) :: name)
    name = transfer(file(1:n), name)
  end function name_of

  ! The case's second file.
  function target_of(name) result(other)
    character(len=*), intent(in) :: name
    character(len=:), allocatable :: other
    other = "target"//name(index(name, "-"):)
  end function target_of

  subroutine say(text)
    character(len=*), intent(in) :: text
    call say_text(text, len(text))
  end subroutine say

  subroutine say_number(text, number)
    character(len=*), intent(in) :: text
    integer(hsize_t), intent(in) :: number
    character(len=24) :: digits
    write (digits, "(i0)") number
    call say(text//": "//trim(digits))
  end subroutine say_number

  ! Says what a call returned, and the error stack of one that failed.
  subroutine tried(call, error)
    character(len=*), intent(in) :: call
    integer, intent(in) :: error
    call tried_fortran(call, len(call), error)
  end subroutine tried

  function begun(name, creation, access) result(file)
    character(len=*), intent(in) :: name
    integer(hid_t), intent(in), optional :: creation, access
    integer(hid_t) :: file
    integer :: error
    call h5open_f(error)
    call h5eset_auto_f(0, error)
    call h5fcreate_f(name, H5F_ACC_TRUNC_F, file, error, creation, access)
    call tried("h5fcreate_f", error)
  end function begun

  function opened(name) result(file)
    character(len=*), intent(in) :: name
    integer(hid_t) :: file
    integer :: error
    call h5open_f(error)
    call h5eset_auto_f(0, error)
    call h5fopen_f(name, H5F_ACC_RDONLY_F, file, error)
    call tried("h5fopen_f", error)
  end function opened

  subroutine ended(file)
    integer(hid_t), intent(in) :: file
    integer :: error
    call h5fclose_f(file, error)
    call tried("h5fclose_f", error)
  end subroutine ended

  function untimed() result(list)
    integer(hid_t) :: list
    integer :: error
    call h5pcreate_f(H5P_DATASET_CREATE_F, list, error)
    call h5pset_obj_track_times_f(list, .false., error)
  end function untimed

  function extent(dims, most) result(space)
    integer(hsize_t), intent(in) :: dims(:)
    integer(hsize_t), intent(in), optional :: most(:)
    integer(hid_t) :: space
    integer :: error
    call h5screate_simple_f(size(dims), dims, space, error, most)
  end function extent

  ! A dataset of whole numbers.
  subroutine put(in, name, values)
    integer(hid_t), intent(in) :: in
    character(len=*), intent(in) :: name
    integer, intent(in) :: values(:)
    integer(hid_t) :: set, space
    integer(hsize_t) :: dims(1)
    integer :: error
    dims = size(values)
    space = extent(dims)
    call h5dcreate_f(in, name, H5T_STD_I32BE, space, set, error, untimed())
    call tried("h5dcreate_f "//name, error)
    call h5dwrite_f(set, H5T_NATIVE_INTEGER, values, dims, error)
    call tried("h5dwrite_f "//name, error)
    call h5dclose_f(set, error)
    call h5sclose_f(space, error)
  end subroutine put

  subroutine show(in, name, count)
    integer(hid_t), intent(in) :: in
    character(len=*), intent(in) :: name
    integer, intent(in) :: count
    integer(hid_t) :: set
    integer :: values(count), error
    integer(hsize_t) :: dims(1)
    character(len=200) :: line
    dims = count
    values = -1
    call h5dopen_f(in, name, set, error)
    call tried("h5dopen_f "//name, error)
    if (error /= 0) return
    call h5dread_f(set, H5T_NATIVE_INTEGER, values, dims, error)
    call tried("h5dread_f "//name, error)
    write (line, "(10(1x,i0))") values(1:min(10, count))
    call say(name//trim(line))
    call h5dclose_f(set, error)
  end subroutine show
end module telling

module fixed_interface
  use telling
  implicit none

contains

  subroutine write_groups(file) bind(c, name="write_fortran_groups")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, other, group, below, order
    integer :: error
    call h5open_f(error)
    other = begun(target_of(name_of(file)))
    call put(other, "far", [1, 2, 3])
    call ended(other)
    call h5pcreate_f(H5P_FILE_CREATE_F, order, error)
    call h5pset_link_creation_order_f(order, ior(H5P_CRT_ORDER_TRACKED_F, H5P_CRT_ORDER_INDEXED_F), error)
    f = begun(name_of(file), order)
    call h5gcreate_f(f, "/zebra", group, error)
    call h5gcreate_f(group, "below", below, error)
    call put(below, "x", [7, 8, 9])
    call h5lcreate_soft_f("/zebra/below/x", f, "soft", error)
    call h5lcreate_hard_f(f, "/zebra/below/x", f, "hard", error)
    call h5lcreate_external_f(target_of(name_of(file)), "/far", f, "out", error)
    call h5lmove_f(f, "soft", f, "moved", error)
    call h5lcopy_f(f, "moved", f, "copied", error)
    call h5ldelete_f(f, "copied", error)
    call h5ocopy_f(f, "zebra", f, "stripes", error)
    call tried("h5ocopy_f", error)
    call h5gclose_f(below, error)
    call h5gcreate_f(f, "/zebra", below, error)
    call tried("a second of the name", error)
    call h5gopen_f(f, "/nowhere", below, error)
    call tried("nothing there", error)
    call h5gclose_f(group, error)
    call h5pclose_f(order, error)
    call ended(f)
  end subroutine write_groups

  subroutine look_groups(file) bind(c, name="look_fortran_groups")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, group
    integer :: error, members, i, kind
    logical :: there
    character(len=32) :: name
    f = opened(name_of(file))
    call h5gn_members_f(f, "/", members, error)
    call say_number("members", int(members, hsize_t))
    do i = 0, members - 1
      call h5gget_obj_info_idx_f(f, "/", i, name, kind, error)
      call say(trim(name))
      call say_number("  of kind", int(kind, hsize_t))
    end do
    call show(f, "moved", 3)
    call show(f, "out", 3)
    call show(f, "stripes/below/x", 3)
    call h5lexists_f(f, "copied", there, error)
    call say(merge("there", "gone ", there))
    call h5gcreate_f(f, "new", group, error)
    call tried("a new group", error)
    call ended(f)
  end subroutine look_groups

  subroutine write_attributes(file) bind(c, name="write_fortran_attributes")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, group, text, scalar, list, attribute, kept, nothing
    integer(hsize_t) :: dims(1), three(1)
    integer :: error
    real(8) :: numbers(3)
    f = begun(name_of(file))
    call h5gcreate_f(f, "g", group, error)
    call h5tcopy_f(H5T_NATIVE_CHARACTER, text, error)
    call h5tset_size_f(text, 12_size_t, error)
    call h5screate_f(H5S_SCALAR_F, scalar, error)
    call h5screate_f(H5S_NULL_F, nothing, error)
    three = 3
    dims = 1
    list = extent(three)
    call h5acreate_f(group, "text", text, scalar, attribute, error)
    call h5awrite_f(attribute, text, "grid of 2020", dims, error)
    call tried("h5awrite_f", error)
    call h5aclose_f(attribute, error)
    numbers = [0.5d0, 1.5d0, -1d300]
    call h5acreate_f(group, "numbers", H5T_IEEE_F64BE, list, attribute, error)
    call h5awrite_f(attribute, H5T_NATIVE_DOUBLE, numbers, three, error)
    call h5aclose_f(attribute, error)
    call h5acreate_f(f, "nothing", H5T_NATIVE_INTEGER, nothing, attribute, error)
    call h5aclose_f(attribute, error)
    call h5acreate_f(group, "gone", H5T_NATIVE_INTEGER, scalar, attribute, error)
    call h5aclose_f(attribute, error)
    call h5adelete_f(group, "gone", error)
    call h5arename_f(group, "numbers", "renamed", error)
    call h5acreate_f(group, "text", text, scalar, attribute, error)
    call tried("a second of the name", error)
    call h5tcopy_f(H5T_STD_I16BE, kept, error)
    call h5tcommit_f(f, "kept", kept, error)
    call tried("h5tcommit_f", error)
    call h5dcreate_f(f, "of the kept type", kept, list, attribute, error, untimed())
    call h5dwrite_f(attribute, H5T_NATIVE_INTEGER, [1, 2, 300], three, error)
    call h5dclose_f(attribute, error)
    call h5tclose_f(kept, error)
    call h5tclose_f(text, error)
    call h5gclose_f(group, error)
    call ended(f)
  end subroutine write_attributes

  subroutine look_attributes(file) bind(c, name="look_fortran_attributes")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, group, attribute, text
    integer(hsize_t) :: dims(1)
    integer :: error, count
    real(8) :: numbers(3)
    character(len=12) :: value
    character(len=80) :: line
    f = opened(name_of(file))
    call h5gopen_f(f, "g", group, error)
    call h5aget_num_attrs_f(group, count, error)
    call say_number("attributes", int(count, hsize_t))
    call h5aopen_f(group, "text", attribute, error)
    call h5aget_type_f(attribute, text, error)
    dims = 1
    call h5aread_f(attribute, text, value, dims, error)
    call say(value)
    call h5aclose_f(attribute, error)
    dims = 3
    call h5aopen_f(group, "renamed", attribute, error)
    call h5aread_f(attribute, H5T_NATIVE_DOUBLE, numbers, dims, error)
    write (line, *) numbers
    call say(line)
    call h5aclose_f(attribute, error)
    call h5aopen_f(group, "gone", attribute, error)
    call tried("an attribute that is gone", error)
    call show(f, "of the kept type", 3)
    call h5gclose_f(group, error)
    call ended(f)
  end subroutine look_attributes

  subroutine write_layouts(file) bind(c, name="write_fortran_layouts")
    character(kind=c_char), intent(in) :: file(*)
    character(len=10), parameter :: names(8) = &
      [character(len=10) :: "contiguous", "compact", "plain", "gzip", "szip", "scaled", "early", "never"]
    integer(hid_t) :: f, list, set, space
    integer(hsize_t) :: dims(2), most(2), chunk(2), stored
    integer :: error, i, values(30, 20)
    f = begun(name_of(file))
    values = reshape([(mod(i, 90), i = 1, 600)], [30, 20])
    dims = [30, 20]
    chunk = [10, 7]
    most = [30_hsize_t, H5S_UNLIMITED_F]
    do i = 1, 8
      list = untimed()
      call h5pset_fill_value_f(list, H5T_NATIVE_INTEGER, -3, error)
      if (names(i) == "compact") call h5pset_layout_f(list, H5D_COMPACT_F, error)
      if (i > 2) call h5pset_chunk_f(list, 2, chunk, error)
      if (names(i) == "gzip") then
        call h5pset_shuffle_f(list, error)
        call h5pset_deflate_f(list, 5, error)
        call h5pset_fletcher32_f(list, error)
      end if
      if (names(i) == "szip") call h5pset_szip_f(list, H5_SZIP_NN_OM_F, 8, error)
      if (names(i) == "scaled") call h5pset_scaleoffset_f(list, H5Z_SO_INT_F, 0, error)
      if (names(i) == "early") call h5pset_alloc_time_f(list, H5D_ALLOC_TIME_EARLY_F, error)
      if (names(i) == "never") call h5pset_fill_time_f(list, H5D_FILL_TIME_NEVER_F, error)
      if (i > 2) then
        space = extent(dims, most)
      else
        space = extent(dims)
      end if
      call h5dcreate_f(f, trim(names(i)), H5T_STD_I32BE, space, set, error, list)
      call tried("h5dcreate_f "//trim(names(i)), error)
      call h5dwrite_f(set, H5T_NATIVE_INTEGER, values, dims, error)
      call tried("h5dwrite_f "//trim(names(i)), error)
      call h5dget_storage_size_f(set, stored, error)
      call say_number("stored", stored)
      call h5dclose_f(set, error)
      call h5sclose_f(space, error)
      call h5pclose_f(list, error)
    end do
    call ended(f)
  end subroutine write_layouts

  subroutine look_layouts(file) bind(c, name="look_fortran_layouts")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set, list
    integer :: error, fill, layout
    f = opened(name_of(file))
    call show(f, "contiguous", 600)
    call show(f, "compact", 600)
    call show(f, "gzip", 600)
    call show(f, "szip", 600)
    call show(f, "scaled", 600)
    call show(f, "never", 600)
    call h5dopen_f(f, "early", set, error)
    call h5dget_create_plist_f(set, list, error)
    call h5pget_fill_value_f(list, H5T_NATIVE_INTEGER, fill, error)
    call h5pget_layout_f(list, layout, error)
    call say_number("fill value", int(fill, hsize_t))
    call say_number("layout", int(layout, hsize_t))
    call h5pclose_f(list, error)
    call h5dclose_f(set, error)
    call ended(f)
  end subroutine look_layouts

  subroutine write_parts(file) bind(c, name="write_fortran_parts")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, list, set, space, memory
    integer(hsize_t) :: dims(2), most(2), chunk(2), start(2), count(2), stride(2), points(2, 3), four(1), less(2), more(2)
    integer(hssize_t) :: selected
    integer :: error, i, values(12)
    f = begun(name_of(file))
    values = [(i, i = 1, 12)]
    dims = [6, 8]
    chunk = [4, 3]
    most = H5S_UNLIMITED_F
    list = untimed()
    call h5pset_chunk_f(list, 2, chunk, error)
    call h5pset_fill_value_f(list, H5T_NATIVE_INTEGER, 5, error)
    space = extent(dims, most)
    call h5dcreate_f(f, "x", H5T_STD_I16LE, space, set, error, list)
    start = [1, 0]
    count = [3, 4]
    stride = [2, 2]
    call h5sselect_hyperslab_f(space, H5S_SELECT_SET_F, start, count, error, stride)
    call h5sget_select_npoints_f(space, selected, error)
    call say_number("selected", int(selected, hsize_t))
    four = 12
    memory = extent(four)
    call h5dwrite_f(set, H5T_NATIVE_INTEGER, values, four, error, memory, space)
    call tried("a hyperslab", error)
    points = reshape([1, 1, 6, 8, 3, 3], [2, 3])
    call h5sselect_elements_f(space, H5S_SELECT_SET_F, 2, 3_size_t, points, error)
    four = 3
    memory = extent(four)
    call h5dwrite_f(set, H5T_NATIVE_INTEGER, values(10:12), four, error, memory, space)
    call tried("points", error)
    less = [3, 5]
    more = [7, 9]
    call h5dset_extent_f(set, less, error)
    call h5dset_extent_f(set, more, error)
    call tried("h5dset_extent_f", error)
    call h5dwrite_f(set, H5T_NATIVE_INTEGER, values(10:12), four, error, memory, space)
    call tried("another extent", error)
    call h5dclose_f(set, error)
    call ended(f)
  end subroutine write_parts

  subroutine look_parts(file) bind(c, name="look_fortran_parts")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f
    integer :: error, buffer(4)
    integer(hsize_t) :: four(1)
    integer(hid_t) :: space
    f = opened(name_of(file))
    call show(f, "x", 63)
    four = 4
    space = extent(four)
    buffer = 0
    call h5dfill_f(8, space, buffer, error)
    call say_number("filled", int(sum(buffer), hsize_t))
    call ended(f)
  end subroutine look_parts

  subroutine write_references(file) bind(c, name="write_fortran_references")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set, space, part
    integer(hsize_t) :: two(1), one(1), six(1), start(1), count(1)
    type(hobj_ref_t_f) :: objects(2)
    type(hdset_reg_ref_t_f) :: regions(1)
    integer :: error
    f = begun(name_of(file))
    call put(f, "x", [1, 2, 3, 4, 5, 6])
    call put(f, "y", [1])
    call h5rcreate_f(f, "x", objects(1), error)
    call h5rcreate_f(f, "y", objects(2), error)
    two = 2
    one = 1
    six = 6
    space = extent(two)
    call h5dcreate_f(f, "objects", H5T_STD_REF_OBJ, space, set, error, untimed())
    call h5dwrite_f(set, H5T_STD_REF_OBJ, objects, two, error)
    call tried("h5dwrite_f", error)
    call h5dclose_f(set, error)
    part = extent(six)
    start = 1
    count = 3
    call h5sselect_hyperslab_f(part, H5S_SELECT_SET_F, start, count, error)
    call h5rcreate_f(f, "x", part, regions(1), error)
    space = extent(one)
    call h5dcreate_f(f, "regions", H5T_STD_REF_DSETREG, space, set, error, untimed())
    call h5dwrite_f(set, H5T_STD_REF_DSETREG, regions, one, error)
    call tried("h5dwrite_f", error)
    call h5dclose_f(set, error)
    call ended(f)
  end subroutine write_references

  subroutine look_references(file) bind(c, name="look_fortran_references")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set, found
    integer(hsize_t) :: two(1)
    type(hobj_ref_t_f) :: objects(2)
    integer :: error
    character(len=32) :: name
    integer(size_t) :: length
    f = opened(name_of(file))
    two = 2
    call h5dopen_f(f, "objects", set, error)
    call h5dread_f(set, H5T_STD_REF_OBJ, objects, two, error)
    call tried("h5dread_f", error)
    call h5rdereference_f(set, objects(2), found, error)
    call tried("h5rdereference_f", error)
    call h5iget_name_f(found, name, 32_size_t, length, error)
    call say(trim(name))
    call h5dclose_f(found, error)
    call h5dclose_f(set, error)
    call ended(f)
  end subroutine look_references

  subroutine write_reopened(file) bind(c, name="write_fortran_reopened")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, second
    integer :: error, i
    integer(size_t) :: open_ones
    logical :: is
    call h5open_f(error)
    call h5eset_auto_f(0, error)
    call h5fopen_f(name_of(file), H5F_ACC_RDWR_F, f, error)
    call tried("not there yet", error)
    call h5fcreate_f(name_of(file), H5F_ACC_EXCL_F, f, error)
    call tried("h5fcreate_f", error)
    call put(f, "x", [1, 2])
    call h5fflush_f(f, H5F_SCOPE_GLOBAL_F, error)
    call h5freopen_f(f, second, error)
    call h5fget_obj_count_f(second, H5F_OBJ_ALL_F, open_ones, error)
    call say_number("open", int(open_ones, hsize_t))
    call ended(second)
    call ended(f)
    call h5fcreate_f(name_of(file), H5F_ACC_EXCL_F, f, error)
    call tried("exclusively over it", error)
    do i = 1, 3
      call h5fopen_f(name_of(file), H5F_ACC_RDWR_F, f, error)
      call tried("h5fopen_f", error)
      call put(f, "more "//achar(iachar("0") + i), [i, i])
      call ended(f)
    end do
    call h5fis_hdf5_f(name_of(file), is, error)
    call say(merge("is HDF5", "is not ", is))
  end subroutine write_reopened

  subroutine look_reopened(file) bind(c, name="look_fortran_reopened")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, second
    integer :: error
    integer(hsize_t) :: bytes
    logical :: is
    f = opened(name_of(file))
    second = opened(name_of(file))
    call h5fget_filesize_f(f, bytes, error)
    call say_number("bytes", bytes)
    call show(second, "more 3", 2)
    call h5fis_hdf5_f(name_of(file), is, error)
    call say(merge("is HDF5", "is not ", is))
    call h5fopen_f("no-such-file.h5", H5F_ACC_RDONLY_F, second, error)
    call tried("no such file", error)
    call ended(f)
  end subroutine look_reopened

  subroutine write_specially(file) bind(c, name="write_fortran_specially")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, creation, access
    integer(hsize_t) :: block
    integer :: error
    call h5open_f(error)
    call h5pcreate_f(H5P_FILE_CREATE_F, creation, error)
    call h5pset_userblock_f(creation, 1024_hsize_t, error)
    call h5pset_sizes_f(creation, 4_size_t, 4_size_t, error)
    f = begun(name_of(file), creation)
    call put(f, "x", [1, 2])
    call h5fget_create_plist_f(f, creation, error)
    call h5pget_userblock_f(creation, block, error)
    call say_number("user block", block)
    call ended(f)
    call h5pcreate_f(H5P_FILE_ACCESS_F, access, error)
    call h5pset_fapl_core_f(access, 4096_size_t, .true., error)
    call h5pset_libver_bounds_f(access, H5F_LIBVER_LATEST_F, H5F_LIBVER_LATEST_F, error)
    f = begun(target_of(name_of(file)), H5P_DEFAULT_F, access)
    call put(f, "x", [3, 4])
    call ended(f)
  end subroutine write_specially

  subroutine look_specially(file) bind(c, name="look_fortran_specially")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f
    f = opened(name_of(file))
    call show(f, "x", 2)
    call ended(f)
    f = opened(target_of(name_of(file)))
    call show(f, "x", 2)
    call ended(f)
  end subroutine look_specially

  subroutine write_highlevel(file) bind(c, name="write_fortran_highlevel")
    use h5lt
    use h5tb
    use h5ds
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, u, x
    integer(hsize_t) :: dims(2), four(1)
    integer :: error, values(4, 3), i
    f = begun(name_of(file))
    dims = [4, 3]
    four = 4
    values = reshape([(i, i = 1, 12)], [4, 3])
    call h5ltmake_dataset_int_f(f, "u", 2, dims, values, error)
    call tried("h5ltmake_dataset_int_f", error)
    call h5ltmake_dataset_double_f(f, "x", 1, four, [0d0, 0.5d0, 1d0, 1.5d0], error)
    call h5ltset_attribute_string_f(f, "u", "unit", "m/s", error)
    call tried("h5ltset_attribute_string_f", error)
    call h5dopen_f(f, "u", u, error)
    call h5dopen_f(f, "x", x, error)
    call h5dsset_scale_f(x, error, "position")
    call h5dsattach_scale_f(u, x, 1, error)
    call tried("h5dsattach_scale_f", error)
    call h5dsset_label_f(u, 1, "along", error)
    call h5dclose_f(u, error)
    call h5dclose_f(x, error)
    call ended(f)
  end subroutine write_highlevel

  subroutine look_highlevel(file) bind(c, name="look_fortran_highlevel")
    use h5lt
    use h5ds
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, x
    integer(hsize_t) :: dims(2)
    integer :: error, values(4, 3)
    logical :: is
    f = opened(name_of(file))
    dims = [4, 3]
    call h5ltread_dataset_int_f(f, "u", values, dims, error)
    call say_number("sum", int(sum(values), hsize_t))
    call h5dopen_f(f, "x", x, error)
    call h5dsis_scale_f(x, is, error)
    call say(merge("a scale ", "no scale", is))
    call h5dclose_f(x, error)
    call ended(f)
  end subroutine look_highlevel

  subroutine write_sizes(file) bind(c, name="write_fortran_sizes")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, group, set, space
    integer(hsize_t) :: large(1), none(2)
    real(8), allocatable :: values(:)
    integer :: error, i
    character(len=8) :: name
    f = begun(name_of(file))
    allocate (values(3000000))
    values = [(real(i, 8), i = 1, 3000000)]
    large = 3000000
    space = extent(large)
    call h5dcreate_f(f, "large", H5T_NATIVE_DOUBLE, space, set, error, untimed())
    call h5dwrite_f(set, H5T_NATIVE_DOUBLE, values, large, error)
    call tried("h5dwrite_f", error)
    call h5dclose_f(set, error)
    none = [3, 0]
    space = extent(none)
    call h5dcreate_f(f, "none", H5T_NATIVE_DOUBLE, space, set, error, untimed())
    call h5dclose_f(set, error)
    call h5gcreate_f(f, "many", group, error)
    do i = 1, 1000
      write (name, "(i0)") i
      call h5dcreate_f(group, trim(name), H5T_NATIVE_INTEGER, space, set, error, untimed())
      call h5dclose_f(set, error)
    end do
    call h5gclose_f(group, error)
    call ended(f)
  end subroutine write_sizes

  subroutine look_sizes(file) bind(c, name="look_fortran_sizes")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set
    integer(hsize_t) :: large(1)
    real(8), allocatable :: values(:)
    integer :: error, members
    character(len=40) :: line
    f = opened(name_of(file))
    allocate (values(3000000))
    large = 3000000
    call h5dopen_f(f, "large", set, error)
    call h5dread_f(set, H5T_NATIVE_DOUBLE, values, large, error)
    write (line, *) sum(values)
    call say(line)
    call h5dclose_f(set, error)
    call h5gn_members_f(f, "many", members, error)
    call say_number("members", int(members, hsize_t))
    call ended(f)
  end subroutine look_sizes
end module fixed_interface

module interface_of_2003
  use telling
  implicit none

  type, bind(c) :: particle
    real(c_double) :: place(3)
    integer(c_int) :: number
    integer(c_int8_t) :: kind
    character(kind=c_char) :: name(6)
  end type particle

contains

  function particle_type(sample) result(kind)
    type(particle), intent(in), target :: sample(2)
    integer(hid_t) :: kind, enum, text, array
    integer(hsize_t) :: three(1)
    integer :: error
    three = 3
    call h5tarray_create_f(H5T_NATIVE_DOUBLE, 1, three, array, error)
    call h5tenum_create_f(h5kind_to_type(c_int8_t, H5_INTEGER_KIND), enum, error)
    call h5tenum_insert_f(enum, "red", 0, error)
    call h5tenum_insert_f(enum, "blue", 7, error)
    call h5tcopy_f(H5T_C_S1, text, error)
    call h5tset_size_f(text, 6_size_t, error)
    call h5tcreate_f(H5T_COMPOUND_F, h5offsetof(c_loc(sample(1)), c_loc(sample(2))), kind, error)
    call h5tinsert_f(kind, "place", h5offsetof(c_loc(sample(1)), c_loc(sample(1)%place)), array, error)
    call h5tinsert_f(kind, "number", h5offsetof(c_loc(sample(1)), c_loc(sample(1)%number)), H5T_NATIVE_INTEGER, error)
    call h5tinsert_f(kind, "kind", h5offsetof(c_loc(sample(1)), c_loc(sample(1)%kind)), enum, error)
    call h5tinsert_f(kind, "name", h5offsetof(c_loc(sample(1)), c_loc(sample(1)%name)), text, error)
    call tried("h5tinsert_f", error)
  end function particle_type

  subroutine put_any(in, name, stored, memory, count, values)
    integer(hid_t), intent(in) :: in, stored, memory
    character(len=*), intent(in) :: name
    integer, intent(in) :: count
    type(c_ptr), intent(in) :: values
    integer(hid_t) :: set, space
    integer(hsize_t) :: dims(1)
    integer :: error
    dims = count
    space = extent(dims)
    call h5dcreate_f(in, name, stored, space, set, error, untimed())
    call tried("h5dcreate_f "//name, error)
    call h5dwrite_f(set, memory, values, error)
    call tried("h5dwrite_f "//name, error)
    call h5dclose_f(set, error)
    call h5sclose_f(space, error)
  end subroutine put_any

  subroutine write_types(file) bind(c, name="write_fortran_types")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, kind, complex_type, opaque, odd
    integer :: error, i
    type(particle), target :: particles(2)
    complex(c_double), target :: turns(2)
    real(c_float), target :: reals(3)
    integer(c_int64_t), target :: wide(3)
    integer(c_int), target :: plain(3)
    character(kind=c_char), target :: bytes(8)
    f = begun(name_of(file))
    do i = 1, 2
      particles(i)%place = [0.5d0, real(i, 8), -1d0]
      particles(i)%number = i
      particles(i)%kind = int(7 * (i - 1), c_int8_t)
      particles(i)%name = ["p", "a", "r", "t", " ", achar(48 + i)]
    end do
    kind = particle_type(particles)
    call put_any(f, "particles", kind, kind, 2, c_loc(particles))
    turns = [(1d0, -1d0), (0.5d0, 1d300)]
    call h5tcreate_f(H5T_COMPOUND_F, 16_size_t, complex_type, error)
    call h5tinsert_f(complex_type, "r", 0_size_t, H5T_NATIVE_DOUBLE, error)
    call h5tinsert_f(complex_type, "i", 8_size_t, H5T_NATIVE_DOUBLE, error)
    call put_any(f, "complex", complex_type, complex_type, 2, c_loc(turns))
    reals = [1.5, -2.5, 1e30]
    wide = [1_c_int64_t, -2_c_int64_t, 2_c_int64_t**60]
    plain = [1, -2, 70000]
    call put_any(f, "reals", H5T_IEEE_F64BE, H5T_NATIVE_REAL, 3, c_loc(reals))
    call put_any(f, "wide", H5T_STD_I64BE, h5kind_to_type(c_int64_t, H5_INTEGER_KIND), 3, c_loc(wide))
    call put_any(f, "small", H5T_STD_U16LE, H5T_NATIVE_INTEGER, 3, c_loc(plain))
    call put_any(f, "bits", H5T_STD_B32LE, H5T_STD_B32LE, 3, c_loc(plain))
    call h5tcopy_f(H5T_STD_I32LE, odd, error)
    call h5tset_precision_f(odd, 19_size_t, error)
    call h5tset_offset_f(odd, 5_size_t, error)
    call put_any(f, "odd", odd, H5T_NATIVE_INTEGER, 3, c_loc(plain))
    call h5tcreate_f(H5T_OPAQUE_F, 4_size_t, opaque, error)
    call h5tset_tag_f(opaque, "four bytes", error)
    bytes = ["a", "b", "c", "d", "e", "f", "g", "h"]
    call put_any(f, "opaque", opaque, opaque, 2, c_loc(bytes))
    call ended(f)
  end subroutine write_types

  subroutine look_types(file) bind(c, name="look_fortran_types")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set, kind
    integer :: error, members, i, length
    type(particle), target :: particles(2)
    real(c_float), target :: reals(3)
    character(len=80) :: line
    character(len=20) :: member
    type(c_ptr) :: at
    f = opened(name_of(file))
    call h5dopen_f(f, "particles", set, error)
    kind = particle_type(particles)
    at = c_loc(particles)
    call h5dread_f(set, kind, at, error)
    call tried("h5dread_f", error)
    write (line, *) particles(2)%place(2), particles(2)%number, particles(2)%kind, particles(2)%name
    call say(line)
    call h5dget_type_f(set, kind, error)
    call h5tget_nmembers_f(kind, members, error)
    do i = 0, members - 1
      call h5tget_member_name_f(kind, i, member, length, error)
      call say(member(1:length))
    end do
    call h5dclose_f(set, error)
    call h5dopen_f(f, "reals", set, error)
    at = c_loc(reals)
    call h5dread_f(set, H5T_NATIVE_REAL, at, error)
    write (line, *) reals
    call say(line)
    call h5dclose_f(set, error)
    call show(f, "small", 3)
    call show(f, "odd", 3)
    call ended(f)
  end subroutine look_types

  subroutine write_interoperable(file) bind(c, name="write_fortran_interoperable")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, text, lists, truth
    integer :: error
    character(kind=c_char, len=6), target :: words(2)
    type(c_ptr), target :: at(2)
    integer(c_int), target :: numbers(3)
    integer(c_int8_t), target :: truths(3)
    type(hvl_t), target :: several(2)
    f = begun(name_of(file))
    call h5tcopy_f(H5T_STRING, text, error)
    words = ["one"//c_null_char//"  ", "three"//c_null_char]
    at = [c_loc(words(1)), c_loc(words(2))]
    call put_any(f, "words", text, text, 2, c_loc(at))
    numbers = [4, 5, 6]
    several(1)%len = 3
    several(1)%p = c_loc(numbers)
    several(2)%len = 0
    several(2)%p = c_null_ptr
    call h5tvlen_create_f(H5T_NATIVE_INTEGER, lists, error)
    call put_any(f, "lists", lists, lists, 2, c_loc(several))
    call h5tenum_create_f(h5kind_to_type(c_int8_t, H5_INTEGER_KIND), truth, error)
    call h5tenum_insert_f(truth, "FALSE", 0, error)
    call h5tenum_insert_f(truth, "TRUE", 1, error)
    truths = [1_c_int8_t, 0_c_int8_t, 1_c_int8_t]
    call put_any(f, "truths", truth, truth, 3, c_loc(truths))
    call ended(f)
  end subroutine write_interoperable

  subroutine look_interoperable(file) bind(c, name="look_fortran_interoperable")
    character(kind=c_char), intent(in) :: file(*)
    integer(hid_t) :: f, set, lists
    integer :: error
    type(hvl_t), target :: several(2)
    integer(c_int), pointer :: numbers(:)
    type(c_ptr) :: at
    f = opened(name_of(file))
    call h5dopen_f(f, "lists", set, error)
    call h5tvlen_create_f(H5T_NATIVE_INTEGER, lists, error)
    at = c_loc(several)
    call h5dread_f(set, lists, at, error)
    call tried("h5dread_f", error)
    call c_f_pointer(several(1)%p, numbers, [several(1)%len])
    call say_number("sum", int(sum(numbers), hsize_t))
    call h5dclose_f(set, error)
    call ended(f)
  end subroutine look_interoperable
end module interface_of_2003
