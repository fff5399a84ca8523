// Package faultbench is the bench of injected faults: hosts of a laboratory (lab/netns) on which
// one thing is wrong, `launch torchrun` typed on each, and a score of what came of it. Was the
// right cause named, on the right host, how long after it could be seen, did every host end, and
// what was left behind? Healthy starts with harmless oddities are scored too: there every warning
// is a false alarm. There is no code here but tests; `make faultbench` runs all of it and prints
// the tables, `make test` a part.
package faultbench
