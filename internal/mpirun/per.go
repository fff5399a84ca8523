package mpirun

import (
	"strconv"
	"strings"
)

// Per is a line of Open MPI that places a number of processes on each host, or on each part of one.
type Per struct {
	N      int    `json:"n"`
	Of     string `json:"of"`     // node, package, numa
	Option string `json:"option"` // as it was typed: "--map-by ppr:2:node"
}

// per returns how many processes each host or part of one gets; nil: the line does not say, or says more than that.
func (r *reader) per() *Per {
	if r.hydra() || len(r.Line.Starts) > 1 {
		return nil
	}
	var out *Per
	for _, o := range r.Line.Options {
		switch o.Name {
		case "npernode", "N":
			out = perOf(o.Value, "node", "-"+o.Name+" "+o.Value)
		case "pernode":
			out = perOf("1", "node", "-pernode")
		case "npersocket":
			out = perOf(o.Value, "package", "-npersocket "+o.Value)
		case "ppr":
			out = pattern(o.Value, "-ppr "+o.Value)
		case "map-by":
			if rest, ok := strings.CutPrefix(strings.ToLower(o.Value), "ppr:"); ok {
				out = pattern(rest, "--map-by "+o.Value)
			}
		}
	}
	return out
}

// pattern reads "2:node" with modifiers after it. Those that give a process several processors make another count.
func pattern(text, option string) *Per {
	f := strings.Split(strings.ToLower(text), ":")
	if len(f) < 2 || strings.Contains(text, ",") || strings.Contains(strings.ToLower(text), "pe=") {
		return nil
	}
	switch f[1] {
	case "node", "numa":
		return perOf(f[0], f[1], option)
	case "socket", "skt", "package":
		return perOf(f[0], "package", option)
	}
	return nil
}

func perOf(n, of, option string) *Per {
	number, err := strconv.Atoi(n)
	if err != nil || number < 1 || number > maxPer {
		return nil
	}
	return &Per{N: number, Of: of, Option: option}
}

// maxPer bounds a number that is typed.
const maxPer = 1 << 20
