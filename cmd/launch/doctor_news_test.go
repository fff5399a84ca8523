package main

import (
	"strings"
	"testing"
	"time"

	"launch/cmd/internal/companion"
	"launch/diagnose/verdict"
	"launch/rendezvous"
)

// What launch doctor says of a launch that waits names what it waits for.
func TestDoctorSaysWhatLaunchWaitsFor(t *testing.T) {
	since := time.Date(2026, 1, 2, 13, 5, 0, 0, time.Local)
	naming := companion.News{Naming: &companion.Naming{Host: "train-0.train", Why: "no such host", Since: since,
		Until: since.Add(10 * time.Minute), Do: "kubectl get service train"}}
	missing := companion.News{Waiting: &rendezvous.Event{Kind: rendezvous.Progress,
		Attendance: &rendezvous.Attendance{Joined: 1, Want: 2, Missing: []int{1}}}}
	unfit := companion.News{Waiting: &rendezvous.Event{Kind: rendezvous.Progress, Attendance: &rendezvous.Attendance{
		Joined: 1, Want: 2, Left: []rendezvous.Member{{Index: -1, Host: "b", Left: "it is unfit: calls to it are dropped"}}}}}
	failed := companion.News{Waiting: &rendezvous.Event{Kind: rendezvous.Progress, Attendance: &rendezvous.Attendance{
		Joined: 1, Want: 2, Unfit: []rendezvous.Note{{Name: "c", Index: -1, Text: "disk.shm: 64 MiB"}}}}}
	lost := companion.News{Waiting: &rendezvous.Event{Kind: rendezvous.Lost, Text: "connection refused"}}
	hosted, silent := lost, lost
	hosted.Before, silent.Before = unfit.Waiting, missing.Waiting
	for _, tc := range []struct {
		news             companion.News
		cause, says, fix string
	}{
		{naming, "store.name", "has not started its command: it waits for the name train-0.train of the store's host, " +
			"until 13:15:00: no such host", "kubectl get service train"},
		{missing, "node.missing", "has not started its command: 1 of 2 nodes joined; waiting for node 1",
			"start launch there"},
		{unfit, "node.missing", "; b joined and left: it is unfit: calls to it are dropped", "correct why it left"},
		{failed, "node.missing", "disk.shm: 64 MiB", "fix first what makes it unfit: c; then start launch there again"},
		{lost, "launch.waits", "has not started its command: the store does not answer: connection refused",
			"look at the store's host"},
		{silent, "launch.waits", "the store does not answer: connection refused; retrying", "look at the store's host"},
		{hosted, "launch.waits", "the store does not answer: connection refused; retrying; before that: 1 of 2 nodes " +
			"joined; waiting for 1 more (joined: no node); b joined and left: it is unfit: calls to it are dropped",
			"correct why that node left"},
		{companion.News{Waiting: &rendezvous.Event{Kind: rendezvous.Back}}, "launch.waits",
			"its command: the store answers again", "launch status"},
	} {
		v := verdict.Verdict{Cause: "launch.waits", Do: "launch status",
			Says: "launch (pid 7 on vm) has not started its command: the last line that it printed says what it waits for"}
		say(&v, tc.news)
		if v.Cause != tc.cause || !strings.Contains(v.Says, tc.says) || !strings.HasPrefix(v.Do, tc.fix) {
			t.Errorf("%s: %s; %s\nwant %s: %s; %s", v.Cause, v.Says, v.Do, tc.cause, tc.says, tc.fix)
		}
		if tc.cause == "store.name" && !v.Since.Equal(since) {
			t.Errorf("since %s", v.Since)
		}
	}
}
