package peers

import (
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/preflight"
)

// PeerChecks is the table of what Decide judges, when all nodes are here. They
// have no Run: the nodes bring what is compared.
func Checks() []preflight.Check {
	out := slices.Concat(callChecks(), lineChecks(), sameChecks())
	for i := range out {
		out[i].Scope = preflight.OfPeers
	}
	return out
}

// callChecks are judged by what came of the calls between the nodes.
func callChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "peer.reach", Title: "the nodes reach each other over the address of each, in both directions",
		Doc: "Every rank connects to others, on ports of the kernel's choice; where a firewall is between two, the job times out many minutes later.",
	}, {
		ID: "peer.token", Title: "all nodes have the same LAUNCH_TOKEN",
		Doc: "A node without it is refused by the others.",
	}, {
		ID: "peer.identity", Title: "the address of a node is answered by that node",
		Doc: "An address that two machines have, or that a proxy answers, brings ranks to the wrong one.",
	}, {
		ID: "peer.large", Title: "long messages arrive as short ones do",
		Doc: "Where packets of full size vanish the ranks connect, and the first large collective hangs.",
	}, {
		ID: "peer.mtu", Title: "packets of full size arrive between the nodes",
		Doc: "TCP makes its segments smaller and gets through; RDMA over the same network does not.",
	}, {
		ID: "peer.clock", Title: "the wall clocks of the nodes agree",
		Doc: "Certificates, file times and logs of several nodes are compared by them.",
	}, {
		ID: "peer.name", Title: "the names of the nodes lead to them",
		Doc: "launch hands the job addresses; ssh, Ray or the job's own code go by names, and miss a node whose name is another's or is not known. Each node looks up those of at most four others; where few are known, nothing is said.",
	}, {
		ID: "peer.beside", Title: "the nodes reach each other where NCCL and Gloo will wait beside these addresses",
		Doc: "A library that is told another interface, or takes several, hangs where only the node's own address is open.",
	}}
}

// lineChecks are judged by what was typed on each node.
func lineChecks() []preflight.Check {
	return []preflight.Check{{
		ID: "same.nproc", Title: "the nodes have the same number of processes",
		Doc: "What splits work by node goes wrong where the ranks are unevenly spread.",
	}, {
		ID: "same.command", Title: "the nodes run the same command",
		Doc: "Ranks that run different programs wait for each other's collectives.",
	}, {
		ID: "same.script", Title: "the script has the same content on all nodes",
		Doc: "Ranks that run different versions of a program wait in different collectives.",
	}, {
		ID: "same.restarts", Title: "the nodes have the same --restarts",
		Doc: "A node that has become its command cannot start it again with the others.",
	}, {
		ID: "same.launch", Title: "the nodes run the same launch",
		Doc: "Different versions are not tested together.",
	}}
}

// sameChecks are judged by what the nodes are made of and would load.
func sameChecks() []preflight.Check {
	out := []preflight.Check{{
		ID: "same.gpu.owner", Title: "no two nodes use one GPU",
		Doc: "Two containers or two starts on one machine may see the same GPUs; NCCL refuses two ranks on one (\"Duplicate GPU detected\").",
	}}
	for _, r := range traitRules() {
		out = append(out, preflight.Check{ID: r.id, Title: "the nodes do not differ in " + r.title, Doc: strings.ToUpper(r.breaks[:1]) + r.breaks[1:] + "."})
	}
	for _, r := range loadRules() {
		c := preflight.Check{ID: r.id, Title: r.title + " is the same on all nodes"}
		var comes []string
		for _, o := range r.outcomes {
			if o.status == finding.Skip {
				continue
			}
			text := o.breaks
			if len(r.outcomes) > 1 {
				text = string(o.status) + ": " + text
			}
			if o.source != "" {
				text += " (" + o.source + ")"
			}
			comes = append(comes, text)
		}
		c.Doc = strings.Join(comes, "; ") + "."
		out = append(out, c)
	}
	return append(out, preflight.Check{
		ID: "same.env", Title: "settings that have to be alike are the same on all nodes",
		Doc: "Ranks that disagree about their messages or their network hang or fail in the first collective.",
	})
}

// NotJudged is the IDs of PeerChecks that the user has switched off.
func NotJudged(o preflight.Options) []string {
	var out []string
	for _, c := range Checks() {
		if slices.Contains(o.Skip, c.ID) || len(o.Only) > 0 && !slices.Contains(o.Only, c.ID) {
			out = append(out, c.ID)
		}
	}
	return out
}
