#!/bin/sh
# Everything about GPUs, in at most 25 minutes, on a bare machine with one: builds the native layer, then runs `python -m
# benchmarks gpu`: tests of channels, checkpoints, buffers and learners on the GPU, and measurements. Writes build/gpu.md
# and build/gpu.json. Exits 3 where CUDA finds no device.
#
#   benchmarks/gpu.sh [--only PART...]   on the machine with the GPU; needs no network
#   benchmarks/gpu.sh --fetch            beforehand, where there is a network: fills .wheels with what that machine may lack
#   benchmarks/gpu.sh --stand-in         without a GPU: the same parts on a stand-in for the driver and on the CPU; measures
#                                        nothing real
#
# The machine has Linux on x86-64, a C++ compiler, and Python 3.12 with PyTorch (2.11 to 2.13) and CuPy 14. Wheels in .wheels are used
# for what its Python lacks; carry the folder along with the checkout. PYTHON names another Python than python3.
set -eu

cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
modules="cmake ninja h5py mpi4py networkx numpy yaml pytest pytest_timeout hypothesis"

if [ "${1:-}" = --fetch ]; then
    "$python" -m pip download --quiet --dest .wheels --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        cmake ninja h5py mpi4py mpich networkx numpy PyYAML pytest pytest-timeout hypothesis
    ls .wheels
    exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work" /dev/shm/stand-in-$$-*' EXIT INT TERM

# Only what is lacking is taken from the wheels: NumPy, above all, is the one that torch and CuPy were made for.
wheels=""
for module in $modules; do
    "$python" -c "import importlib.util as u; raise SystemExit(u.find_spec('$module') is None)" && continue
    case $module in yaml) name=pyyaml ;; *) name=$module ;; esac
    found=$(find .wheels -iname "$name-*.whl" 2>/dev/null | head -n 1)
    if [ -z "$found" ]; then
        echo "gpu.sh: $python lacks $module, and .wheels does not have it: run 'benchmarks/gpu.sh --fetch' where there is a network" >&2
        exit 2
    fi
    wheels="$wheels $found"
done
if ! command -v mpiexec >/dev/null; then  # ranks that train together want it; without it their test is left out
    wheels="$wheels $(find .wheels -iname 'mpich-*.whl' 2>/dev/null | head -n 1)"
fi
if [ -n "$(echo $wheels)" ]; then
    # shellcheck disable=SC2086
    "$python" -m pip install --quiet --no-index --no-deps --target "$work/site" $wheels
    # What those need in turn, where it is lacking too.
    for wheel in .wheels/*.whl; do
        name=$(basename "$wheel" | cut -d- -f1)
        "$python" -m pip show --quiet "$name" 2>/dev/null || [ -d "$work/site/$name" ] ||
            "$python" -m pip install --quiet --no-index --no-deps --target "$work/site" "$wheel"
    done
fi
export PYTHONPATH="$PWD:$work/site${PYTHONPATH:+:$PYTHONPATH}" PATH="$work/site/bin:$PATH" OMP_NUM_THREADS=1
if [ -e "$work/site/bin/mpiexec" ]; then
    export LD_LIBRARY_PATH="$work/site/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
if mpiexec=$(command -v mpiexec); then
    export WILKINS_TEST_MPIEXEC="$mpiexec"
    [ "$(id -u)" != 0 ] || export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

if [ "${1:-}" = --stand-in ]; then
    cc -O2 -shared -fPIC -pthread -Wl,-soname,libcuda.so.1 tests/devices/stand_in/*.c -o "$work/libcuda.so.1" -lrt
    export LD_LIBRARY_PATH="$work${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" WILKINS_GPUS=1 STAND_IN_RUN=$$
    out="$work/gpu.md"
else
    out="build/gpu.md"
fi

if ! why=$("$python" -c "
from wilkins.transport.devices.driver import NoCuda, driver
try:
    driver()
except NoCuda as error:
    raise SystemExit(f'gpu.sh: no CUDA device: {error}')
" 2>&1); then
    echo "$why" >&2
    exit 3
fi

if [ -z "${WILKINS_LIBRARY:-}" ]; then
    cmake -S . -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE="$(command -v "$python")" >/dev/null
    cmake --build "$work/build" >"$work/build.log" || { tail -n 40 "$work/build.log" >&2; exit 1; }
    export WILKINS_LIBRARY="$work/build/libwilkins.so"
fi

"$python" -m benchmarks gpu "$@" --out "$out"
