package logs

import (
	"regexp"
	"strconv"
	"strings"
)

const (
	noNodeSays = "Ray has no node of the address {addr} with what is asked for: Ray knows that node by another " +
		"one, or it is busy"
	noNodeDo = "set VLLM_HOST_IP on each node to the address that ray list nodes shows for it: an IP, not a name; " +
		"compare ray status with the number of GPUs asked for"
	nodeDemand = `\{[^}]*'node:(?P<addr>[^'_][^']*)'`
)

var (
	noNodeNeed  = []string{"ray status", "the addresses of ray list nodes"}
	demandWords = []string{"pending placement groups", "pending tasks/actors"}

	// bundles are what a placement group or tasks ask Ray for, in the table of ray status.
	bundles = regexp.MustCompile(`\{[^}]*'GPU': (\d+(?:\.\d+)?)[^}]*\} ?\* ?(\d+)`)
)

// demandCauses are what programs ask Ray for, and do not get.
var demandCauses = []cause{
	{
		id: "log.ray-no-gpu", grade: decisive,
		words: []string{"Current node has no GPU available", "Ray does not allocate any GPUs on the driver node"},
		says:  "Ray has no GPU on the node of vLLM's driver",
		do: "start vLLM on a node with free GPUs, and compare ray status with CUDA_VISIBLE_DEVICES and " +
			"VLLM_HOST_IP there",
		from: "vllm ray_utils.py",
	}, {
		id: "log.ray-resources", grade: family, soft: true, with: "ray.gpus", words: demandWords,
		form: re(`(?P<all>.*` + nodeDemand + `.*)`), test: satisfiable,
		says: noNodeSays + "[. {want} GPUs are asked for in all, and the cluster has {fact}]",
		do:   noNodeDo, need: noNodeNeed, from: "vllm-project/vllm#14186",
	}, {
		id: "log.ray-resources", grade: family, soft: true, with: "ray.gpus", words: demandWords,
		form: re(`(?P<all>\{[^}]*'GPU': .*)`), test: demanded,
		says: "processes wait for GPUs in Ray: {what}[; its cluster has {fact} in all]",
		do: "where that is too few: a node has not joined, or has registered no GPU or another device (ray status of " +
			"each " +
			"node; ray start --num-gpus=N, or its driver), or the program asks for more than there are; where it is enough, " +
			"other jobs use them",
		need: []string{"ray status, and ray list nodes --detail: the resources of each node"},
		from: "ray autoscaler",
	}, {
		id: "log.ray-resources", grade: family, soft: true, wraps: true,
		words: []string{"No available node types can fulfill", "creating a placement group of specs"},
		form:  re(nodeDemand),
		says:  noNodeSays, do: noNodeDo, need: noNodeNeed, from: "vllm-project/vllm#14186",
	}, {
		id: "log.ray-resources", grade: waits, soft: true, words: []string{"Waiting for creating a placement group"},
		form: opt(`specs=(?P<what>\[[^\]]*\])`),
		says: "Ray waits for free nodes with what is asked for[: {what}]",
		need: []string{"ray status: its usage and demands", "the addresses of ray list nodes"},
	}, {
		id: "log.ray-resources", grade: family, soft: true, wraps: true,
		words: []string{"No available node types can fulfill resource request", "placement group is not ready",
			"Cannot provide a placement group"},
		form: opt(`resource request (?P<what>\{[^}]*\})`),
		says: "Ray's cluster has no free node with what is asked for[: {what}]",
		do:   "compare ray status with the number of GPUs asked for: a node has not joined, or other jobs hold its GPUs",
		need: []string{"ray status", "the addresses of ray list nodes"},
	},
}

// satisfiable adds up the GPUs as well, and says whether the cluster has as many.
func satisfiable(vals map[string]string) bool {
	if !demanded(vals) {
		return false
	}
	want, _ := strconv.ParseFloat(vals["want"], 64)
	has, err := strconv.ParseFloat(vals[latestFact], 64)
	return err == nil && want <= has
}

// demanded adds up the GPUs that a row of Ray's table of demands asks for.
func demanded(vals map[string]string) bool {
	all := bundles.FindAllStringSubmatch(vals["all"], -1)
	sum := 0.0
	for _, b := range all {
		each, _ := strconv.ParseFloat(b[1], 64)
		sum += each * float64(number(b[2]))
	}
	if sum == 0 {
		return false
	}
	amount := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	vals["want"], vals["what"] = amount(sum), amount(sum)+" in all"
	if len(all) == 1 {
		each, _ := strconv.ParseFloat(all[0][1], 64)
		vals["what"] = all[0][2] + " with " + amount(each) + " each"
	}
	if strings.Contains(vals["all"], "STRICT_PACK") {
		vals["what"] += ", on one node (STRICT_PACK)"
	}
	return true
}
