"""Habits of redirection: the shell, and the tools that it calls, read and write the files."""

from __future__ import annotations

from habits.common import BYTES, READS
from habits.rig import Habit, Program, Refusal, bash, py, sh


def each(line: str, shell: object = sh) -> Program:
    """A line for each step ``$k``, whose file is ``$f``."""
    assert callable(shell)
    program = shell(f"for k in $(steps); do\n    f=plt000$k.dat\n    {line}\ndone\n")
    assert isinstance(program, Program)
    return program


WRITERS = {
    "to": "text $k > $f",
    "append": "text $k | head -n 10 >> $f; text $k | tail -n +11 >> $f",
    "clobber": "text $k >| $f",
    "group": "{ text $k | head -n 10; text $k | tail -n +11; } > $f",
    "loop": "text $k | while read -r n; do echo $n; done > $f",
    "subshell": "(text $k) > $f",
    "tee": "text $k | tee $f > /dev/null",
    "tee-append": "text $k | tee -a $f > /dev/null",
    "dd": "text $k | dd of=$f status=none",
    "dd-seek": "text $k > draft; dd if=draft of=$f bs=500 status=none; rm draft",
    "cat-to": "text $k | cat > $f",
    "cp": "text $k > draft; cp draft $f; rm draft",
    "cp-p": "text $k > draft; cp -p draft $f; rm draft",
    "mv": "text $k > draft; mv draft $f",
    "install": "text $k > draft; install -m 644 draft $f; rm draft",
    "exec-3": "exec 3> $f; text $k >&3; exec 3>&-",
    "exec-3-printf": "exec 3> $f; for n in $(text $k); do echo $n >&3; done; exec 3>&-",
    "here-document": "cat > $f <<END\n$(text $k)\nEND",
    "awk": "text $k | awk -v f=$f '{ print > f }'",
    "sort-o": "text $k | sort -n -o $f",
    "sed-w": 'text $k | sed -n "w $f"',
    "truncate": "text $k > d; truncate -s $(stat -c %s d) $f; dd if=d of=$f conv=notrunc status=none; rm d",
    "split": "text $k > draft; split -n 1 -a 1 --additional-suffix=.dat draft x; mv xa.dat $f; rm draft",
    "tar-x": "text $k > d; tar cf all.tar --transform s/d/$f/ d; tar xf all.tar; rm all.tar d",
    "gunzip": "text $k | gzip > draft.gz; gunzip -c draft.gz > $f; rm draft.gz",
    "python": "python3 -c \"print(*range($k, $k + 1000), sep='\\n')\" > $f",
    "touch-then-to": "touch draft; text $k > draft; cat draft > $f; rm draft",
}

READERS = {
    "from": 'echo "= $k $(cksum < $f)"',
    "cat": "cat $f | show $k",
    "read-loop": "while read -r n; do echo $n; done < $f | show $k",
    "exec-3": "exec 3< $f; cat <&3 | show $k; exec 3<&-",
    "tee": "tee mine < $f | show $k; rm mine",
    "dd": "dd if=$f status=none | show $k",
    "dd-blocks": "dd if=$f bs=1000 skip=1 status=none | show $k",
    "cp": "cp $f mine; cat mine | show $k; rm mine",
    "cp-folder": "mkdir -p archive; cp $f archive/; cat archive/$f | show $k",
    "cp-p": "cp -p $f mine; cat mine | show $k; rm mine",
    "cp-a": "cp -a $f mine; cat mine | show $k; rm mine",
    "install": "install -m 600 $f mine; cat mine | show $k; rm mine",
    "mv-away": "mv $f mine-$k; cat mine-$k | show $k",
    "tar-c": "tar cf - $f | tar xOf - | show $k",
    "tar-cf": "tar cf mine.tar $f; tar xOf mine.tar | show $k; rm mine.tar",
    "gzip-c": "gzip -c $f | gunzip | show $k",
    "wc": 'echo "= $k $(wc -l < $f)"',
    "head": "head -n 3 $f | show $k",
    "tail": "tail -n 3 $f | show $k",
    "sort": "sort -n $f | show $k",
    "awk": "awk '{ s += $1 } END { print \"= \" s }' $f",
    "grep": 'echo "= $k $(grep -c 9 $f)"',
    "sed": "sed p $f | show $k",
    "od": "od -c $f | show $k",
    "substitution": 'echo "$(cat $f)" | show $k',
    "cut-paste": "paste $f $f | show $k",
    "diff": 'text $k > mine; diff -q $f mine && echo "= $k as it should be"; rm mine',
    "md5sum": "md5sum $f | sed 's/^/= /'",
    "stdin-of-python": "python3 -c 'import sys; sys.stdout.write(sys.stdin.read())' < $f | show $k",
    "source": "sed 's/^/v=/' $f > mine; . ./mine; echo \"= $k $v\"; rm mine",
    "xxd-then-cat": "head -c 8 $f > /dev/null; cat $f | show $k",
}

BASH_READERS = {
    "mapfile": 'mapfile -t lines < $f; printf "%s\\n" "${lines[@]}" | show $k',
    "bash-substitution": 'printf "%s\\n" "$(< $f)" | show $k',
    "process-substitution": "cat <(cat $f) | show $k",
}

REOPENED = Refusal(
    r"reopened files of 'plt\*\.dat' 6 times to add to what had been published",
    "A file that is closed is complete, as far as anybody can tell, and this one is opened again to be written on: the "
    "reader may come between. The account tells of the further steps. `publish: next` on the out-port publishes a file "
    "when the next one is begun.",
)

MAKES_OUT = py("""
import os
os.mkdir('out')
for k, name in enumerate(NAMES):
    put('out/' + name, k)
""")
MISSING = Refusal(
    "cannot stat 'out'",
    "The program gives up where a folder is missing, and a pattern without the folder does not tell that one of this "
    "name is going to come; `filename: out/plt*.dat` does.",
)

HABITS = [
    Habit(f"write-{name}", each(line), READS, refused=REOPENED if name in ("append", "truncate") else None)
    for name, line in WRITERS.items()
]
HABITS += [
    Habit(f"write-{name}-next", each(WRITERS[name]), READS, out={"publish": "next"}) for name in ("append", "truncate")
]
HABITS += [Habit(f"read-{name}", BYTES, each(line)) for name, line in READERS.items()]
HABITS += [Habit(f"read-{name}", BYTES, each(line, bash)) for name, line in BASH_READERS.items()]
HABITS += [
    Habit("read-rsync", BYTES, each("rsync $f mine; cat mine | show $k; rm mine"), needs=("rsync",)),
    Habit(
        "cp-all", BYTES, sh("mkdir archive; cp plt*.dat archive/; cat archive/* | show all\n"), into={"listing": "end"}
    ),
    Habit(
        "cp-r",
        MAKES_OUT,
        sh("cp -r out archive; cat archive/* | show all\n"),
        "out/plt*.dat",
        into={"listing": "end"},
    ),
    Habit(
        "cp-r-not-in-the-pattern",
        MAKES_OUT,
        sh("cp -r out archive; cat archive/* | show all\n"),
        into={"listing": "end"},
        refused=MISSING,
    ),
    Habit(
        "cd-there",
        MAKES_OUT,
        sh("cd out; cat plt*.dat | show all\n"),
        "out/plt*.dat",
        into={"listing": "end"},
    ),
    Habit(
        "until-folder",
        MAKES_OUT,
        sh("""
while ! [ -d out ]; do sleep 0.01; done
for k in $(steps); do cat out/plt000$k.dat | show $k; done
"""),
        "out/plt*.dat",
        beside=True,
    ),
    Habit(
        "tar-all",
        BYTES,
        sh("""
tar cf all.tar plt*.dat; tar tf all.tar | sed 's/^/= /'; tar xOf all.tar | show all; rm all.tar
"""),
        into={"listing": "end"},
    ),
    Habit(
        "rsync-folder",
        MAKES_OUT,
        sh("rsync -a out/ archive/; cat archive/* | show all\n"),
        "out/plt*.dat",
        into={"listing": "end"},
        needs=("rsync",),
    ),
    Habit(
        "cat-named",
        BYTES,
        sh("""
cat plt0000.dat plt0001.dat plt0002.dat plt0003.dat plt0004.dat plt0005.dat | show all
"""),
    ),
    Habit(
        "paste-named",
        BYTES,
        sh("""
paste plt0000.dat plt0001.dat plt0002.dat plt0003.dat plt0004.dat plt0005.dat | show all
"""),
    ),
    Habit(
        "one-command-each", BYTES, sh('cksum < "$1" | sed "s/^/= $1 /"\n'), consumer={"args": ["{filename}"]}, each=True
    ),
    Habit(
        "cp-each",
        BYTES,
        sh('mkdir -p archive; cp "$1" archive/; cat "archive/$1" | show "$1"\n'),
        consumer={"args": ["{filename}"]},
        each=True,
    ),
    Habit(
        "gzip-each",
        BYTES,
        sh("""
gzip -c "$1" > "saved-$1.gz"; zcat "saved-$1.gz" | show "$1"; rm "saved-$1.gz"
"""),
        consumer={"args": ["{filename}"]},
        each=True,
    ),
]
