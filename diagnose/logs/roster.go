package logs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"launch/diagnose/verdict"
)

const rosterID = "log.roster"

// rosterCauses are lines with which each rank of a world reports that it has begun.
var rosterCauses = []cause{{
	id: rosterID, grade: waits, soft: true, words: []string{"GLOBAL_RANK: "},
	form: re(`GLOBAL_RANK: (?P<rank>\d+), MEMBER: \d+/(?P<of>\d+)`),
	says: "{who} of {of} began, and the job did not go on",
	need: []string{
		"the output of the ranks that are not in these logs: were they started, and with which node rank",
		"under Slurm: --ntasks-per-node must be the number of devices, and srun must start the script",
	},
	from: "Lightning-AI/pytorch-lightning#4389",
}, {
	id: rosterID, grade: waits, soft: true, words: []string{" 0 of 1", " 0 out of 1", " 0/1"},
	form: re(`(?i)\b(?:proc|process|processor|rank|task|worker)[ :#]+(?P<rank>0)(?: of | out of |/)(?P<of>1)\b`),
	says: "several processes began, and each says that it is rank 0 of 1",
	need: []string{"ldd of the program, and mpirun --version: are both of the same MPI",
		"under Slurm: srun --mpi=list"},
}}

// absent returns the numbers that a list lacks, up to its highest one.
func absent(list string) string {
	have, out := numbers(list), []string{}
	for n := range min(slices.Max(append(have, -1))+1, maxStreams) {
		if !slices.Contains(have, n) {
			out = append(out, strconv.Itoa(n))
		}
	}
	return strings.Join(out, ", ")
}

// roster judges the ranks that report their beginning, and after which the job did not go on. All of
// them there is no failure.
func (f *follower) roster(r *Reading, all []*event) {
	seen := map[int]int{}
	of := 0
	for _, e := range all {
		seen[e.rank] += e.lines
		of = min(max(of, number(e.vals["of"])), maxStreams)
	}
	var began, twice, missing []int
	for rank := range of {
		switch seen[rank] {
		case 0:
			missing = append(missing, rank)
			continue
		case 1:
		default:
			twice = append(twice, rank)
		}
		began = append(began, rank)
	}
	top := all[0]
	if of == 1 && seen[0] > 1 {
		r.First = top.failure()
		r.Open = append(r.Open, Lead{Family: "log.worlds-of-one", Seen: quoted(all), Need: top.cause.need,
			Says: fmt.Sprintf("%d processes each say that they are rank 0 of 1: each is a world of its own", seen[0])})
	}
	if len(missing) == 0 {
		return
	}
	r.First = top.failure()
	if len(twice) > 0 {
		r.Verdicts = append(r.Verdicts, verdict.Verdict{
			Cause: "log.rank-duplicate", Sure: verdict.Likely, Ranks: twice, Since: top.time, Seen: quoted(all),
			Says: fmt.Sprintf("%s began more than once, and %s of %d never: nodes have the same node rank, or a node "+
				"starts its processes again in each task", rankList(twice), rankList(missing), of),
			Do: "give each node its own node rank; under Slurm start one task a device (--ntasks-per-node) with srun",
		})
		return
	}
	r.Open = append(r.Open, Lead{Family: "log.clients-missing", Ranks: missing, Seen: quoted(all), Need: top.cause.need,
		Says: fmt.Sprintf("%s of %d began; %s have no line in these logs", rankList(began), of, rankList(missing))})
}
