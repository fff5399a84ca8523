package logs

import (
	"regexp"
	"slices"
	"strings"
)

// recorderCauses are findings of torch's analyser of the flight recorder's dumps (torchfrtrace), which names ranks.
var recorderCauses = []cause{
	{
		id: "log.collective-mismatch", grade: family, words: []string{"_MISMATCH"},
		form: re(`(?P<whose>.*?)Error type: ` +
			`(?:MatchState\.)?(?P<what>(?:SIZE_OR_SYNTAX|COLLECTIVE_(?:TYPE|DTYPE))_MISMATCH)` +
			`(?P<rest>.*)`),
		test: culprits,
		says: "{who} called a collective otherwise than the rest of the group ({how}[: {want} expected, {has} found]), by " +
			"torch's flight recorder",
		do: "compare what these ranks and the others call at this point: the lines \"collective stack trace\" show " +
			"where; one rank that differs from all can make the analyser name the others",
		need: []string{"the stack trace of that collective in the same output, and the dumps of all ranks"},
		from: "torch distributed/flight_recorder",
	}, {
		id: "log.rank-behind", grade: family, words: []string{"COLLECTIVE_STATE_MISMATCH"},
		form: re(`(?P<whose>.*?)Error type: ` +
			`(?:MatchState\.)?(?P<what>COLLECTIVE_STATE_MISMATCH)(?P<rest>.*)`), test: culprits,
		says: "{who} is at another point of a collective than the rest of the group ({how}), by torch's flight recorder",
		do: "look at the stack and the GPU of these ranks and of one other: some have finished or begun it, and others " +
			"have only asked for it",
		need: []string{"the stack trace of that collective in the same output, and the dumps of all ranks"},
		from: "torch distributed/flight_recorder",
	}, {
		id: "log.ranks-missing", grade: waits, words: []string{"Not all ranks joining collective"},
		form:  opt(`(?:sequence number: |collective )(?P<n>\d+)|Missing ranks are \{(?P<ranks>[\d, ]+)\}`),
		later: []string{"missing ranks: "},
		more:  re(`missing ranks: (?:\w+\()?\{(?P<ranks>[\d, ]+)\}`),
		says: "{who} did not call a collective[, number {n},] in which the rest of the group waits, by torch's flight " +
			"recorder",
		need: []string{"the output and the stack of these ranks (py-spy dump): did one end, or take another branch",
			"the stack trace of that collective in the same output"},
		from: "torch distributed/flight_recorder",
	},
}

var (
	culpritForm = regexp.MustCompile(`Culprit rank (\d+)|\((\d+), (?:MatchInfo|Error|$)`)
	sizesForm   = regexp.MustCompile(`Expected (?:input |output )?(\w+): '([^']*)' does not match found (?:input ` +
		`|output )?\w+: '([^']*)`)
)

// culprits adds the ranks that a line of the analyser names, and in what they differ.
func culprits(v map[string]string) bool {
	line := v["whose"] + "Error type: " + v["rest"]
	var ranks []string
	for _, m := range culpritForm.FindAllStringSubmatch(line, maxFacts) {
		if r := m[1] + m[2]; !slices.Contains(ranks, r) {
			ranks = append(ranks, r)
		}
	}
	v["ranks"] = strings.Join(ranks, ", ")
	v["how"] = map[string]string{"SIZE_OR_SYNTAX_MISMATCH": "another size, or another partner",
		"COLLECTIVE_TYPE_MISMATCH": "another kind of collective", "COLLECTIVE_DTYPE_MISMATCH": "another type of data",
		"COLLECTIVE_STATE_MISMATCH": "other states"}[v["what"]]
	if m := sizesForm.FindStringSubmatch(line); m != nil {
		v["want"], v["has"] = m[1]+" "+m[2], m[3]
	}
	return true
}
