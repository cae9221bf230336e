"""What is stopped for taking too long, and what is not: CPU time counts, not a busy machine's."""
import os
import resource
import signal
import subprocess
import time

from harness import RELAXED, SANITIZED, eq, has, main, wait_until

HEAD = 'local perigee = require "perigee"\n'
ENDLESS = "table.move({}, 1, 1 << 62, 2)"  # in C: no hook gets there
NAP = """
#include <unistd.h>
typedef struct lua_State lua_State;
void lua_pushcclosure(lua_State *L, int (*fn)(lua_State *), int n);
static int nap(lua_State *L) { (void)L; usleep(300000); return 0; }
int luaopen_nap(lua_State *L) { lua_pushcclosure(L, nap, 0); return 1; }
"""


def plan(body):
    return HEAD + "return perigee.plan { load = perigee.closed { users = 1, sessions = 2 }, " + body + " }\n"


def test_time_without_the_processor_is_not_running_away(work):
    """It sleeps behind the loop's back for 3 s, and uses next to no CPU time."""
    source = work.write("nap.c", NAP)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", os.path.join(work.path, "nap.so"), source],
                   check=True)
    work.write("s.lua", 'local nap = package.loadlib("./nap.so", "luaopen_nap")()\n' + plan("""session = function()
      local n = 0
      for i = 1, 300000 do n = n + 1 if i % 30000 == 0 then nap() end end
    end"""))
    result = work.perigee("run", "s.lua", "--quiet", "--runaway", "1s", *RELAXED)
    eq(result.status, 0, result.err + result.out)
    eq(result.summary["sessions"]["ok"], 2)


def test_a_stopped_process_is_no_runaway(work):
    work.write("s.lua", plan("""session = function()
      io.open("mark", "w"):close()
      local n = 0
      for i = 1, 20000000 do n = n + 1 end
    end"""))
    process = work.start("run", "s.lua", "--quiet", "--runaway", "2s", *RELAXED)
    mark = os.path.join(work.path, "mark")
    wait_until(lambda: os.path.exists(mark), process)
    process.send_signal(signal.SIGSTOP)
    time.sleep(3)
    process.send_signal(signal.SIGCONT)
    result = work.finish(process)
    eq(result.summary["sessions"]["ok"], 2, result.err + result.out)


def test_a_script_that_is_never_read(work):
    work.write("s.lua", HEAD + ENDLESS)
    for extra in ([],) if SANITIZED else ([], ["--plan"]):  # five seconds of work each
        result = work.perigee("run", "s.lua", "--runaway", "50ms", *extra)
        eq(result.status, 2, result.err)
        has(result.err, "perigee run: s.lua has not been read after 5.0 s of CPU time")


def test_an_expectation_that_never_answers(work):
    """It costs its own answer; the report and the other expectations are there."""
    work.write("s.lua", plan("session = function() end, expect = { function() " + ENDLESS +
                             " end, function() return true, 'fine' end }"))
    result = work.perigee("run", "s.lua", "--quiet", "--runaway", "50ms", *RELAXED)
    eq(result.status, 99, result.err + result.out)
    first, second = result.summary["expectations"]
    eq((first["met"], second["met"], second["reason"]), (False, True, "fine"))
    has(first["reason"], "not judged: it did not come back")
    has(result.report(), "not judged")


def test_sources_have_an_end(work):
    work.write("s.lua", plan("session = function() end"))
    for args in (["run", "/dev/zero"], ["lua", "/dev/zero"], ["test", "/dev/zero"],
                 ["run", "s.lua", "--fleet", "/dev/zero"]):
        result = work.perigee(*args)
        assert result.status in (1, 2), (args, result.status, result.err)
        has(result.err + result.out, "/dev/zero is longer than the 64 MiB", args)


def test_a_hangup_keeps_the_truth_log(work):
    for number in (signal.SIGHUP, signal.SIGTERM):
        process = work.start("sim", "--announce", "--truth", "truth.jsonl")
        process.stdout.readline()
        process.send_signal(number)
        process.communicate(timeout=30)
        eq(process.returncode, 0, str(number))


def test_a_fleet_whose_reader_has_gone_says_nothing(work):
    process = work.start("sim", "--announce")
    process.stdout.close()
    eq(process.wait(timeout=30), 1)
    eq(process.stderr.read(), "")
    process.stderr.close()


def test_one_number_of_descriptors(work):
    work.write("s.lua", plan("session = function() end"))
    process = work.start("run", "s.lua", "--workers", "1",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
    result = work.finish(process)
    eq(result.status, 1, result.err)
    has(result.err, "this run needs at least 67 descriptors, the limit is 40")


main(globals())
