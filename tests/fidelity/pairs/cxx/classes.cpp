// HDF5's C++ classes: groups, attributes, types, spaces, layouts, filters, references, exceptions, user blocks, packet tables.
#include <H5Cpp.h>
#include <H5PacketTable.h>

#include <string>
#include <vector>

#include "pair.h"

using namespace H5;
using std::string;
using std::vector;

namespace {

herr_t say_frame(unsigned n, const H5E_error2_t* error, void*) {
    say("  #%u %s", n, error->desc);
    return 0;
}

// Says how a call fails, or that it does not.
template <class Call>
void failing(const char* what, Call call) {
    try {
        call();
        say("%s: succeeds", what);
    } catch (const Exception& error) {
        say("%s: %s in %s", what, error.getDetailMsg().c_str(), error.getFuncName().c_str());
        Exception::walkErrorStack(H5E_WALK_DOWNWARD, reinterpret_cast<H5E_walk2_t>(say_frame), nullptr);
    }
}

DSetCreatPropList creation() {
    return DSetCreatPropList(untimed());
}

DataSpace extent(const vector<hsize_t>& dims) {
    return DataSpace(static_cast<int>(dims.size()), dims.data());
}

DataSpace extent(hsize_t n) {
    return extent(vector<hsize_t>{n});
}

template <class T>
void put(H5Location& in, const char* name, const DataType& type, const vector<T>& values) {
    in.createDataSet(name, type, extent(values.size()), creation()).write(values.data(), type);
}

template <class T>
vector<T> all(const DataSet& from, const DataType& type) {
    vector<T> values(static_cast<size_t>(from.getSpace().getSimpleExtentNpoints()));
    from.read(values.data(), type);
    return values;
}

void say_object(H5Object&, const H5std_string name, const H5O_info_t* info, void*) {
    say("  visited %s: type %d, %u references, %llu attributes", name.c_str(), int(info->type), info->rc,
        static_cast<unsigned long long>(info->num_attrs));
}

int visit(H5Object& object, const H5std_string name, const H5O_info_t* info, void* data) {
    say_object(object, name, info, data);
    return 0;
}

void say_attribute(H5Object& object, const H5std_string name, void*) {
    const Attribute attribute = object.openAttribute(name);
    say("  attribute %s: class %d, %llu bytes", name.c_str(), int(attribute.getTypeClass()),
        static_cast<unsigned long long>(attribute.getInMemDataSize()));
}

// What the classes tell of a file.
void survey(const char* name) {
    H5File file(name, H5F_ACC_RDONLY);
    say("%s: %lld bytes, %zd objects", file.getFileName().c_str(), static_cast<long long>(file.getFileSize()), file.getObjCount());
    file.visit(H5_INDEX_NAME, H5_ITER_INC, visit, nullptr, H5O_INFO_ALL);
    Group root = file.openGroup("/");
    root.iterateAttrs(say_attribute);
    for (hsize_t i = 0; i < root.getNumObjs(); ++i)
        say("  %llu %s", static_cast<unsigned long long>(i), root.getObjnameByIdx(i).c_str());
    failing("a new group", [&] { file.createGroup("new"); });
}

}  // namespace

CASE(groups, "groups; links; external links; creation order; copy, move, delete", PAIR) {
    {
        H5File other(target(file), H5F_ACC_TRUNC);
        put<int>(other, "far", PredType::STD_I32LE, {1, 2, 3});
    }
    FileCreatPropList order;
    H5Pset_link_creation_order(order.getId(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5File f(file, H5F_ACC_TRUNC, order);
    Group group = f.createGroup("/zebra"), below = group.createGroup("below", 64);
    put<int>(below, "x", PredType::NATIVE_INT, {7, 8, 9});
    f.createGroup("apple");
    f.link(H5L_TYPE_SOFT, "/zebra/below/x", "soft");
    f.link(H5L_TYPE_HARD, "/zebra/below/x", "hard");
    H5Lcreate_external(target(file), "/far", f.getId(), "out", H5P_DEFAULT, H5P_DEFAULT);
    f.move("apple", "pear");
    f.unlink("soft");
    f.link(H5L_TYPE_SOFT, "/nowhere", "dangling");
    f.createGroup("gone");
    f.unlink("gone");
    say("%s", below.getObjName().c_str());
    say("%s in %s", f.getLinkval("dangling").c_str(), f.getFileName().c_str());
    failing("a second of the name", [&] { f.createGroup("zebra"); });
    failing("nothing there", [&] { f.openGroup("/nothing"); });
    failing("a wrong kind", [&] { f.openDataSet("zebra"); });
}

LOOK(groups) {
    survey(file);
    survey(target(file));
    H5File f(file, H5F_ACC_RDONLY);
    say("%d %d", f.openDataSet("hard").getSpace().getSimpleExtentNdims(), all<int>(f.openDataSet("out"), PredType::NATIVE_INT)[2]);
    say("%d %d", int(f.exists("zebra/below")), int(f.nameExists("gone")));
    failing("the dangling link", [&] { f.openDataSet("dangling"); });
}

CASE(attributes, "attributes; strings; fixed strings; null and scalar spaces; committed types") {
    H5File f(file, H5F_ACC_TRUNC);
    const StrType text(PredType::C_S1, H5T_VARIABLE), fixed(PredType::C_S1, 8);
    Group g = f.createGroup("g");
    DataSet d = f.createDataSet("d", PredType::IEEE_F64BE, DataSpace(), creation());
    const double value = 2.5;
    d.write(&value, PredType::NATIVE_DOUBLE);
    for (H5Object* object : {static_cast<H5Object*>(&g), static_cast<H5Object*>(&d)}) {
        object->createAttribute("text", text, DataSpace()).write(text, string("gr\u00fc\u00dfe"));
        object->createAttribute("fixed", fixed, DataSpace()).write(fixed, string("eight by"));
        object->createAttribute("nothing", PredType::NATIVE_INT, DataSpace(H5S_NULL));
        const vector<float> many{0.5f, 1.5f, 2.5f};
        object->createAttribute("many", PredType::IEEE_F32LE, extent(many.size())).write(PredType::NATIVE_FLOAT, many.data());
        object->createAttribute("gone", PredType::NATIVE_INT, DataSpace());
        object->renameAttr("many", "renamed");
        object->removeAttr("gone");
        failing("a second of the name", [&] { object->createAttribute("text", text, DataSpace()); });
        failing("nothing there", [&] { object->openAttribute("nothing of it"); });
    }
    IntType kept(PredType::STD_I16BE);
    kept.commit(f, "kept");
    kept.createAttribute("of a type", PredType::NATIVE_INT, DataSpace()).write(PredType::NATIVE_INT, "\1\0\0\0");
    put<short>(f, "of the kept type", f.openIntType("kept"), {1, 2, 3});
}

LOOK(attributes) {
    survey(file);
    H5File f(file, H5F_ACC_RDONLY);
    string text;
    Group g = f.openGroup("g");
    Attribute attribute = g.openAttribute("text");
    attribute.read(attribute.getStrType(), text);
    say("%s of %s", text.c_str(), attribute.getName().c_str());
    float many[3];
    g.openAttribute("renamed").read(PredType::NATIVE_FLOAT, many);
    say("%g %g %d", many[0], many[2], g.getNumAttrs());
    say("%d %s", int(f.openDataSet("of the kept type").getDataType().committed()), f.openIntType("kept").getObjName().c_str());
}

namespace {

struct Particle {
    double place[3];
    int number;
    char kind;
    hvl_t hits;
    char name[6];
};

CompType particle() {
    const hsize_t three = 3;
    CompType type(sizeof(Particle));
    signed char red = 0, blue = 7;
    EnumType kind(PredType::STD_I8LE);
    kind.insert("red", &red);
    kind.insert("blue", &blue);
    const VarLenType hits(PredType::NATIVE_SHORT);
    type.insertMember("place", HOFFSET(Particle, place), ArrayType(PredType::NATIVE_DOUBLE, 1, &three));
    type.insertMember("number", HOFFSET(Particle, number), PredType::NATIVE_INT);
    type.insertMember("kind", HOFFSET(Particle, kind), kind);
    type.insertMember("hits", HOFFSET(Particle, hits), hits);
    type.insertMember("name", HOFFSET(Particle, name), StrType(PredType::C_S1, 6));
    return type;
}

}  // namespace

CASE(types, "numbers; compound types; nested types; array types; enumerations; sequences; opaque types; bitfields; complex; booleans") {
    H5File f(file, H5F_ACC_TRUNC);
    short hits[] = {4, 5, 6};
    Particle values[2] = {};
    for (int i = 0; i < 2; ++i) {
        values[i].place[i] = 1.5;
        values[i].number = i + 1;
        values[i].kind = static_cast<char>(7 * i);
        values[i].hits = {static_cast<size_t>(3 * i), hits};
        strcpy(values[i].name, i ? "two" : "one");
    }
    f.createDataSet("particles", particle(), extent(2), creation()).write(values, particle());
    const PredType kinds[] = {PredType::STD_I8BE, PredType::STD_U16LE, PredType::STD_I64BE, PredType::IEEE_F32BE, PredType::STD_B32LE};
    for (int i = 0; i < 5; ++i)
        f.createDataSet("kind " + std::to_string(i), kinds[i], extent(3), creation());
    const double numbers[3] = {1, -2, 1e6};
    for (int i = 0; i < 4; ++i) f.openDataSet("kind " + std::to_string(i)).write(numbers, PredType::NATIVE_DOUBLE);
    IntType odd(PredType::STD_I32LE);
    odd.setPrecision(19);
    odd.setOffset(5);
    f.createDataSet("odd", odd, extent(3), creation()).write(numbers, PredType::NATIVE_DOUBLE);
    FloatType half(PredType::IEEE_F32BE);
    half.setFields(15, 10, 5, 0, 10);
    half.setSize(2);
    half.setEbias(15);
    f.createDataSet("half", half, extent(3), creation()).write(numbers, PredType::NATIVE_DOUBLE);
    DataType opaque(H5T_OPAQUE, 4);
    H5Tset_tag(opaque.getId(), "four bytes");
    f.createDataSet("opaque", opaque, extent(2), creation()).write("abcdefgh", opaque);
    CompType complex(size_t{16});
    complex.insertMember("r", 0, PredType::NATIVE_DOUBLE);
    complex.insertMember("i", 8, PredType::NATIVE_DOUBLE);
    const double turns[4] = {1, -1, 0.5, 1e300};
    f.createDataSet("complex", complex, extent(2), creation()).write(turns, complex);
    EnumType truth(PredType::NATIVE_INT8);
    signed char no = 0, yes = 1, truths[] = {1, 0, 1};
    truth.insert("FALSE", &no);
    truth.insert("TRUE", &yes);
    f.createDataSet("truths", truth, extent(3), creation()).write(truths, truth);
}

LOOK(types) {
    survey(file);
    H5File f(file, H5F_ACC_RDONLY);
    const DataSet set = f.openDataSet("particles");
    vector<Particle> values = all<Particle>(set, particle());
    say("%g %d %d %zu %s", values[1].place[1], values[1].number, values[1].kind, values[1].hits.len, values[1].name);
    say("%d", static_cast<short*>(values[1].hits.p)[2]);
    DataSet::vlenReclaim(values.data(), particle(), set.getSpace());
    const CompType stored = set.getCompType();
    for (int i = 0; i < stored.getNmembers(); ++i)
        say("%s: class %d at %zu", stored.getMemberName(i).c_str(), int(stored.getMemberClass(i)), stored.getMemberOffset(i));
    for (const char* name : {"odd", "half"}) say("%s %g", name, all<double>(f.openDataSet(name), PredType::NATIVE_DOUBLE)[2]);
    signed char yes = 1;
    say("%s", f.openDataSet("truths").getEnumType().nameOf(&yes, 8).c_str());
}

CASE(layouts, "contiguous; compact; chunked; resizable; gzip; shuffle; fletcher32; szip; scale-offset; fill values; fill times; extents; partial writes; overwrites") {
    H5File f(file, H5F_ACC_TRUNC);
    const vector<hsize_t> dims{20, 30}, most{H5S_UNLIMITED, 30}, chunk{7, 10};
    vector<int> values(600);
    for (int i = 0; i < 600; ++i) values[static_cast<size_t>(i)] = i % 90;
    for (const string name : {"contiguous", "compact", "plain", "gzip", "szip", "nbit", "early", "never"}) {
        DSetCreatPropList list = creation();
        const int fill = -3;
        list.setFillValue(PredType::NATIVE_INT, &fill);
        if (name == "compact") list.setLayout(H5D_COMPACT);
        else if (name != "contiguous") list.setChunk(2, chunk.data());
        if (name == "gzip") {
            list.setShuffle();
            list.setDeflate(5);
            list.setFletcher32();
        }
        if (name == "szip") list.setSzip(H5_SZIP_NN_OPTION_MASK, 8);
        if (name == "nbit") list.setNbit();
        if (name == "early") list.setAllocTime(H5D_ALLOC_TIME_EARLY);
        if (name == "never") list.setFillTime(H5D_FILL_TIME_NEVER);
        const bool grows = list.getLayout() == H5D_CHUNKED;
        DataSet set = f.createDataSet(name, PredType::STD_I32BE, grows ? DataSpace(2, dims.data(), most.data()) : extent(dims), list);
        set.write(values.data(), PredType::NATIVE_INT);
        const DataSpace memory = extent(12), part = set.getSpace();
        const hsize_t start[] = {1, 2}, count[] = {3, 4}, stride[] = {5, 6};
        part.selectHyperslab(H5S_SELECT_SET, count, start, stride);
        set.write(values.data() + 50, PredType::NATIVE_INT, memory, part);
        const hsize_t points[] = {0, 0, 19, 29, 4, 4};
        part.selectElements(H5S_SELECT_SET, 3, points);
        set.write(values.data() + 80, PredType::NATIVE_INT, extent(3), part);
        say("%s: %llu bytes, %d points", name.c_str(), static_cast<unsigned long long>(set.getStorageSize()), int(part.getSelectNpoints()));
        const hsize_t less[] = {9, 30}, more[] = {31, 30}, far[] = {9, 31};
        if (grows) set.extend(less);
        if (grows) set.extend(more);
        failing("beyond its maximum", [&] { set.extend(far); });
    }
    failing("compact and too large", [&] {
        DSetCreatPropList list = creation();
        list.setLayout(H5D_COMPACT);
        f.createDataSet("large", PredType::NATIVE_INT, extent(100000), list);
    });
}

LOOK(layouts) {
    survey(file);
    H5File f(file, H5F_ACC_RDONLY);
    for (const char* name : {"contiguous", "compact", "plain", "gzip", "szip", "nbit", "early"}) {
        const DataSet set = f.openDataSet(name);
        const DSetCreatPropList list = set.getCreatePlist();
        int fill = 0;
        list.getFillValue(PredType::NATIVE_INT, &fill);
        say("%s: layout %d, %d filters, fill %d", name, int(list.getLayout()), list.getNfilters(), fill);
        say_values(set.getId(), H5T_NATIVE_INT);
    }
}

CASE(spaces, "zero sizes; 32 dimensions; large datasets; many objects") {
    H5File f(file, H5F_ACC_TRUNC);
    vector<hsize_t> many(32, 1);
    many[31] = many[30] = 2;
    const int four[] = {1, 2, 3, 4};
    f.createDataSet("32", PredType::NATIVE_INT, extent(many), creation()).write(four, PredType::NATIVE_INT);
    f.createDataSet("none", PredType::NATIVE_INT, extent(vector<hsize_t>{0, 3}), creation());
    vector<double> large(3000000);
    for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<double>(i) / 7;
    put(f, "large", PredType::NATIVE_DOUBLE, large);
    Group group = f.createGroup("many");
    for (int i = 0; i < 2000; ++i) put<int>(group, std::to_string(i).c_str(), PredType::NATIVE_INT, {i});
}

LOOK(spaces) {
    H5File f(file, H5F_ACC_RDONLY);
    for (const char* name : {"32", "large", "many/1999"}) say_values(f.openDataSet(name).getId(), H5T_NATIVE_DOUBLE);
    say("%lld objects", static_cast<long long>(f.openGroup("many").getNumObjs()));
}

CASE(references, "object references; region references") {
    H5File f(file, H5F_ACC_TRUNC);
    put<int>(f, "x", PredType::NATIVE_INT, {1, 2, 3, 4, 5, 6});
    f.createGroup("g");
    hobj_ref_t objects[2];
    f.reference(&objects[0], "x");
    f.reference(&objects[1], "g");
    f.createDataSet("objects", PredType::STD_REF_OBJ, extent(2), creation()).write(objects, PredType::STD_REF_OBJ);
    const DataSpace part = extent(6);
    const hsize_t start = 1, count = 3;
    part.selectHyperslab(H5S_SELECT_SET, &count, &start);
    hdset_reg_ref_t region;
    f.reference(&region, "x", part);
    f.createDataSet("regions", PredType::STD_REF_DSETREG, DataSpace(), creation()).write(&region, PredType::STD_REF_DSETREG);
}

LOOK(references) {
    survey(file);
    H5File f(file, H5F_ACC_RDONLY);
    const vector<hobj_ref_t> objects = all<hobj_ref_t>(f.openDataSet("objects"), PredType::STD_REF_OBJ);
    for (const hobj_ref_t& reference : objects) {
        H5O_type_t kind;
        H5Rget_obj_type2(f.getId(), H5R_OBJECT, &reference, &kind);
        say("object type %d", int(kind));
    }
    DataSet x;
    x.dereference(f, &objects[0]);
    say("%s", x.getObjName().c_str());
    hdset_reg_ref_t region;
    f.openDataSet("regions").read(&region, PredType::STD_REF_DSETREG);
    say("%lld points", static_cast<long long>(f.getRegion(&region).getSelectNpoints()));
}

CASE(reopened, "appending; file handling; closing; errors", AGAIN) {
    failing("not there yet", [&] { H5File(file, H5F_ACC_RDWR); });
    {
        H5File f(file, H5F_ACC_EXCL);
        put<int>(f, "x", PredType::NATIVE_INT, {1, 2});
        f.flush(H5F_SCOPE_GLOBAL);
        failing("a second creation", [&] { H5File(file, H5F_ACC_TRUNC); });
        H5File same(file, H5F_ACC_RDWR);
        say("%zd objects", same.getObjCount(H5F_OBJ_ALL));
    }
    failing("exclusively over it", [&] { H5File(file, H5F_ACC_EXCL); });
    for (int i = 0; i < 3; ++i) {
        H5File f(file, H5F_ACC_RDWR);
        put<int>(f, ("more " + std::to_string(i)).c_str(), PredType::NATIVE_INT, {i});
    }
    DataSet outlives;
    {
        H5File f(file, H5F_ACC_RDWR);
        outlives = f.openDataSet("x");
    }
    const int changed[] = {5, 6};
    outlives.write(changed, PredType::NATIVE_INT);
    H5File f;
    failing("no file", [&] { f.createGroup("g"); });
    say("%d", int(H5File::isHdf5(file)));
    failing("asked about no file", [&] { H5File::isHdf5("no-such-file.h5"); });
}

LOOK(reopened) {
    survey(file);
    H5File f(file, H5F_ACC_RDONLY), second(file, H5F_ACC_RDONLY);
    failing("opened again", [&] { f.reOpen(); });
    say("%d %d", all<int>(second.openDataSet("x"), PredType::NATIVE_INT)[0], int(H5File::isHdf5(file)));
    failing("for writing, while it is read", [&] { H5File(file, H5F_ACC_RDWR); });
}

CASE(made_specially, "user blocks; drivers", PAIR) {
    FileCreatPropList block;
    block.setUserblock(1024);
    block.setSizes(4, 4);
    block.setSymk(8, 8);
    FileAccPropList core;
    core.setCore(4096, true);
    {
        H5File f(file, H5F_ACC_TRUNC, block);
        put<int>(f, "x", PredType::NATIVE_INT, {1, 2});
        say("%llu", static_cast<unsigned long long>(f.getCreatePlist().getUserblock()));
    }
    H5File f(target(file), H5F_ACC_TRUNC, FileCreatPropList::DEFAULT, core);
    put<int>(f, "x", PredType::NATIVE_INT, {1, 2});
    say("driver of the program's own: %d", int(f.getAccessPlist().getDriver() >= 0));
}

LOOK(made_specially) {
    survey(file);
    survey(target(file));
    H5File f(file, H5F_ACC_RDONLY);
    say("%llu", static_cast<unsigned long long>(f.getCreatePlist().getUserblock()));
}

CASE(paged, "file space; formats") {
    FileCreatPropList paged;
    paged.setFileSpaceStrategy(H5F_FSPACE_STRATEGY_PAGE, true, 1);
    paged.setFileSpacePagesize(4096);
    FileAccPropList latest;
    latest.setLibverBounds(H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    latest.setFcloseDegree(H5F_CLOSE_SEMI);
    H5File f(file, H5F_ACC_TRUNC, paged, latest);
    put<int>(f, "y", PredType::NATIVE_INT, {3});
}

LOOK(paged) {
    survey(file);
}

CASE(over_a_stale_file, "stale files") {
    H5File f(file, H5F_ACC_TRUNC);
    put<int>(f, "x", PredType::NATIVE_INT, {1, 2});
}

CASE(mounted, "mounted files", PAIR) {
    H5File inner(target(file), H5F_ACC_TRUNC), outer(file, H5F_ACC_TRUNC);
    outer.createGroup("at");
    PropList list;
    outer.mount("at", inner, list);
    Group inside = outer.openGroup("at");
    put<int>(inside, "x", PredType::NATIVE_INT, {9});
    inside.close();
    outer.unmount("at");
}

CASE(copied, "copy, move, delete", PAIR) {
    H5File f(file, H5F_ACC_TRUNC), other(target(file), H5F_ACC_TRUNC);
    Group g = f.createGroup("g");
    put<int>(g, "x", PredType::NATIVE_INT, {9, 8});
    TRY(H5Ocopy(f.getId(), "g", other.getId(), "copy", H5P_DEFAULT, H5P_DEFAULT));
    g.copyLink("x", f, "y");
    g.moveLink("x", f, "z");
}

CASE(packets, "appending; strings") {
    H5File f(file, H5F_ACC_TRUNC);
    const StrType text(PredType::C_S1, H5T_VARIABLE);
    FL_PacketTable numbers(f.getId(), const_cast<char*>("numbers"), PredType::NATIVE_INT.getId(), 100, 5);
    for (int i = 0; i < 250; ++i) numbers.AppendPacket(&i);
    FL_PacketTable words(f.getId(), H5P_DEFAULT, "words", text.getId(), 10);
    const char* several[] = {"one", "", "three"};
    words.AppendPackets(3, several);
}

LOOK(packets) {
    H5File f(file, H5F_ACC_RDONLY);
    FL_PacketTable numbers(f.getId(), const_cast<char*>("numbers"));
    int error = 0, read[3] = {};
    say("%llu packets", static_cast<unsigned long long>(numbers.GetPacketCount(error)));
    say("%d", numbers.GetPackets(247, 249, read));
    say("%d %d", read[0], read[2]);
    failing("beyond the end", [&] { say("%d", numbers.GetPacket(1000, read)); });
}
