"""Attacks that were withstood, and the tests that carry out each of them again, most with `-m slow`.

`python benchmarks/withstood.py` carries them out and prints what was tried of each.
"""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent

#: Each attack, and the tests that attack so: a file, or one of its functions.
WITHSTOOD = {
    "mutated files": ("interchange/test_fuzz.py", "workflows/transfer/test_mutated_files.py"),
    "files that want much": ("cli/test_files_that_want_much.py",),
    "pipes, links, endless folders": (
        "interchange/test_conformance.py::test_a_missing_file_an_empty_folder_and_a_pipe_are_neither",
        "interchange/test_source_file.py::test_a_pipe_is_refused_before_it_is_opened",
    ),
    "hostile texts in files, a million characters, NUL": (
        "workflows/transfer/test_hostile_texts.py",
        "workflows/test_long_texts.py",
    ),
    "hostile texts on pages": (
        "dashboard/test_imports_on_pages.py::test_no_text_of_a_file_becomes_html_or_markdown",
        "dashboard/test_pages.py::test_text_that_turns_around_stays_as_it_was_written",
        "dashboard/test_long_texts.py",
        "dashboard/test_exports.py::test_no_cell_of_the_evidence_starts_a_formula",
    ),
    "paths around the login, in each mode": ("dashboard/auth/test_middleware.py::test_another_way_than",),
    "foreign names and origins": (
        "dashboard/auth/test_middleware.py::test_pages_are_read_under_own_names_only_and_never_written",
        "dashboard/server/test_server.py::test_a_page_elsewhere_cannot_open_the_websocket",
    ),
    "methods that write": ("dashboard/auth/test_forged_messages.py::test_no_request_of_a_viewer",),
    "messages of a triager, sent by a viewer": (
        "dashboard/auth/test_forged_messages.py::test_the_messages_of_a_triager_note_nothing_for_a_viewer",
    ),
    "malformed HTTP": ("dashboard/auth/test_forged_messages.py::test_malformed_requests",),
    "forged headers of a proxy": (
        "dashboard/auth/test_identity.py",
        "dashboard/auth/test_served.py::test_forged_headers_on_another_way_lead_nowhere",
    ),
    "forged, old and odd logins": (
        "dashboard/auth/test_middleware.py::test_a_cookie_that_this_server_has_not_signed_is_none",
        "dashboard/auth/test_served.py::test_a_login_that_another_browser_began_is_refused",
    ),
    "clear text behind TLS": ("dashboard/auth/test_behind_tls.py",),
    "kill -9 of a run": ("end_to_end/test_kill_nine.py", "runner/test_leftovers.py"),
    "kill -9 of an import": ("workflows/test_importing_pieces.py::test_an_import_that_is_killed",),
    "kill -9 of storing journals": ("workflows/test_ingest_killed.py",),
    "kill -9 of a migration": ("db/test_killed_migration.py",),
    "kill -9 of a backup": ("db/admin/test_backup.py::test_what_a_killed_backup_left",),
    "two schedulers, killed": ("scheduled_jobs/scheduler/test_service.py::test_two_schedulers_share",),
    "a full disk": ("end_to_end/test_full_disk.py", "db/test_bad_luck.py"),
    "a Postgres that stops": ("end_to_end/test_lost_database.py::test_a_postgres_that_stops_in_mid_run",),
    "a read-only database": ("cli/test_read_only_folder.py", "db/test_read_only.py"),
    "SIGSTOP": (
        "runner/test_supervisor.py::test_a_supervisor_that_is_stopped_ends_with_its_command",
        "runner/telemetry/test_sampler_process.py",
    ),
    "clocks that jump, hours that come twice": (
        "scheduled_jobs/scheduler/test_planner.py::test_a_clock_set_forward",
        "scheduled_jobs/scheduler/test_timetable.py",
    ),
    "wrong schedules": ("configuration/test_schedules.py::test_a_mistake_is_one_sentence_with_its_key",),
    "a fleet's token": (
        "fleet/test_ray.py::test_an_engine_and_a_node_with_a_wrong_token_are_refused",
        "fleet/ray/test_engine.py::test_only_the_head_speaks_to_it_with_its_own_token",
    ),
    "a node that lies": (
        "fleet/test_journal_mirror.py::test_a_difference_is_refused_wherever_it_stands",
        "workflows/test_hostile_journals.py::test_a_journal_in_the_folder_of_another_run_is_not_stored",
    ),
    "passwords on command lines": (
        "db/admin/test_backup.py::test_a_password_is_on_no_command_line_and_in_no_sentence",
        "fleet/ray/test_processes.py::test_no_process_of_ray_has_a_secret_of_ours",
    ),
}


@pytest.mark.parametrize("attack", WITHSTOOD)
def test_an_attack_that_was_withstood_is_tried_again(attack: str) -> None:
    for place in WITHSTOOD[attack]:
        file, _, function = place.partition("::")
        text = (TESTS / file).read_text()
        assert f"def {function or 'test_'}" in text, place
