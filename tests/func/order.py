# SPDX-License-Identifier: MIT
"""Which test is next where several processes of pytest-xdist share the tests.

pytest-xdist gives each process some fifty tests at the beginning and then half of its share of what is left, so that all
end and wait for the one that came to a long test last. Here each gets one at a time. Every second process begins with
the long ones, which mostly wait, so that the others have the processors meanwhile, and none of them is left for the end.
Then comes the file that it is at, for which it has the fixtures (a browser, a Grid Engine), then one that nobody is at,
then the one of which most is left.
"""
import collections

from xdist.scheduler import LoadScheduling

# The longest first: what waits for the product's own limits and times, or does a thing very often.
LONG = """
test_lease.py::test_a_thief_finds_no_gap
test_together.py::test_agent_frees_what_was_forgotten
test_queuebad.py::test_ten_thousand_files_at_once
test_hungagent.py::test_the_loop_makes_no_call_on_a_slow_spool
test_scaling.py::test_a_program_that_stays
test_burnnodes.py::test_tasks_run_on
test_onend.py::test_one_that_was_cut_off
test_slurm.py::test_at_its_time_limit_a_job_is_warned_and_expires
test_figures.py::test_a_full_disk_takes_no_history_until_there_is_room
test_badday.py::test_holder_hangs_while_it_allocates
test_compat.py::test_demonstration
test_queuebad.py::test_memory_after_rubbish
test_figures.py::test_a_disk_that_takes_no_history_is_told_once
test_slurm.py::test_a_lost_node_has_its_job_fail_and_nothing_ends_the_agent
test_scaling.py::test_agent_killed_again_and_again
test_soak.py::test_hold_and_yield_again_and_again
test_webapi.py::test_pools_come_and_go
test_scaling.py::test_agent_killed_at_each_step
test_crash.py::test_killed_at_each_step
test_lease.py::test_no_agent_for_long
test_sockets.py::test_directory_that_is_tidied_away
test_progress.py::test_on_a_terminal
test_top.py::test_the_trend_and_the_band_are_there_from_the_first_frame
test_task.py::test_in_a_job_it_does_not_outlive_its_agent
test_job.py::test_a_task_that_does_not_heed_the_end
test_burn.py::test_what_others_use_is_not_tested
test_webapi.py::test_a_clock_that_is_set_changes_no_time_of_what_runs
test_slurmup.py::test_a_controller_that_is_down_for_a_while
test_hung.py::test_the_file_server_of_one_node_hangs
test_scaling.py::test_a_program_that_does_not_listen
test_submitsh.py::test_a_submission_without_an_answer_makes_no_second_job
test_badday.py::test_layouts_of_the_process_list
test_burnnodes.py::test_another_burn_runs_there
test_burnnodes.py::test_a_part_that_is_killed
test_ask.py::test_a_list_that_nobody_answers_is_none
test_readme.py::test_the_session_is_true
test_hold.py::test_newcomer_that_is_in_no_list
test_poolbad.py::test_down_waits_for_whoever_is_at_it
test_hungagent.py::test_stop_while_the_spool_hangs
test_sge.py::test_a_dead_host_has_nothing_free
test_scaling.py::test_grows_and_shrinks
test_webmetrics.py::test_jobs_and_commands_of_engines
test_slurmup.py::test_a_relay_goes_on_with_nobody_there
test_nodes.py::test_an_engine_that_hangs_is_given_up_after_its_15_seconds
test_burnnodes.py::test_an_agent_that_drains_and_one_that_ends
test_sockets.py::test_agent_whose_sockets_are_elsewhere
test_resourcemanager.py::test_two_managers_at_once
"""

# For one process from the first of its tests to the last, and early: eight browsers cost five times as much as one.
ALONE = "test_page.py"

AHEAD = 2  # a process begins a test when it knows the one after it, whose fixtures may be the same


class Sharing(LoadScheduling):
    def __init__(self, config, log=None):
        super().__init__(config, log)
        self.at = {}  # the file that each process is at
        self.files, self.long = [], {}  # of each test; the place in LONG of those that are there

    def look(self):
        """At what has been collected, which is known by the time the first tests are given out."""
        places = {name: n for n, name in enumerate(LONG.split())}
        for i, test in enumerate(self.collection):
            self.files.append(test.partition("::")[0])
            name = test.partition("[")[0].rpartition("/")[2]
            if name in places:
                self.long[i] = places[name]

    def _send_tests(self, node, num):
        """Instead of num of them in their order."""
        if not self.files:
            self.look()
        chosen = []
        while self.pending and len(self.node2pending[node]) < AHEAD:
            i = self.next_for(node)
            self.pending.remove(i)
            self.node2pending[node].append(i)
            self.at[node] = self.files[i]
            chosen.append(i)
        if chosen:
            node.send_runtest_some(chosen)

    def next_for(self, node):
        if self.nodes.index(node) % 2 == 0 and (long := [i for i in self.pending if i in self.long]):
            return min(long, key=self.long.get)
        left = collections.Counter(self.files[i] for i in self.pending)
        taken, at = set(self.at.values()), self.at.get(node)
        alone = next((f for f in left if f.endswith(ALONE)), None)
        if alone and alone not in taken:
            at = alone
        elif at not in left:
            if len(left) > 1:
                del left[alone]
            at = next((f for f in left if f not in taken), None) or max(left, key=left.get)
        return next(i for i in self.pending if self.files[i] == at)
