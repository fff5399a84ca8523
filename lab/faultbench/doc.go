// Package faultbench injects faults: one thing is wrong on hosts of a laboratory (lab/netns), each
// host runs `launch torchrun`, and the outcome gets a score. Was the right cause named, on the
// right host, how soon, did every host end, and what remained? Healthy starts with harmless
// oddities are scored too: there every warning is a false alarm. The package contains only tests;
// `make faultbench` runs all of them and prints the tables, `make test` runs a part.
package faultbench
