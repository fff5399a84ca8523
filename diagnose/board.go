package diagnose

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"launch/internal/tcpstore"
)

// boards picks the fullest board of the ranks' store and of c10d's endpoint.
func (v *view) boards() {
	for _, s := range v.stores {
		switch {
		case s.Board == nil:
		case len(s.Board.Rendezvous) > 0:
			v.meet = fuller(v.meet, s.Board)
		case fuller(v.board, s.Board) == s.Board:
			v.board, v.home = s.Board, s
		}
	}
	if v.meet != nil {
		v.meet = lastRound(*v.meet)
	}
	if v.board != nil {
		v.board = lastRound(*v.board)
		if v.meet != nil && len(v.board.Shares) == 0 { // c10d: the endpoint's store has them
			v.board.Shares, v.board.Agents = v.meet.Shares, v.meet.Agents
		}
	}
	if v.board != nil && v.world == 0 && len(v.board.Shares) > 0 {
		v.world = min(v.board.Shares[0].World, maxListed)
	}
	if v.board != nil && v.want == 0 {
		v.want = min(len(v.board.Shares), maxListed)
	}
}

// lastRound returns a board without the agents and shares of earlier rounds of c10d, which remain in a store.
func lastRound(b tcpstore.Board) *tcpstore.Board {
	round := 0
	for _, a := range b.Agents {
		round = max(round, a.Round)
	}
	b.Agents = slices.DeleteFunc(slices.Clone(b.Agents), func(a tcpstore.Agent) bool { return a.Round < round })
	b.Shares = slices.DeleteFunc(slices.Clone(b.Shares), func(s tcpstore.Share) bool { return s.Round < round })
	return &b
}

func fuller(a, b *tcpstore.Board) *tcpstore.Board {
	if a == nil || b.Keys > a.Keys {
		return b
	}
	return a
}

// name gives the view the nodes that only the store knows.
func (v *view) name() {
	if v.board == nil {
		return
	}
	for _, sh := range v.board.Shares {
		n := v.byIndex(sh.Node)
		if n == nil {
			n = v.byBlobs(sh)
		}
		if n == nil {
			n = v.byParticipant(sh.Node)
		}
		if n == nil {
			n = &node{name: "node " + strconv.Itoa(sh.Node)}
			v.nodes = append(v.nodes, n)
		}
		if n.index < 0 || n.scene == nil {
			n.index = sh.Node
		}
	}
	for _, b := range v.board.Blobs {
		if b.Group != 0 || b.Host == "" {
			continue
		}
		if n := v.nodeOf(b.Index); n != nil && n.scene == nil && strings.HasPrefix(n.name, "node ") {
			n.name = b.Host
		}
		if v.byName(b.Host) == nil && v.nodeOf(b.Index) == nil {
			v.nodes = append(v.nodes, &node{name: b.Host, index: -1})
		}
	}
}

func (v *view) byBlobs(sh tcpstore.Share) *node {
	for _, b := range v.board.Blobs {
		if b.Group == 0 && v.shareOf(b.Index) == sh.Node {
			if n := v.byName(b.Host); n != nil && n.index < 0 {
				return n
			}
		}
	}
	return nil
}

// byParticipant returns the node of a node rank by c10d's state, which has host names.
func (v *view) byParticipant(index int) *node {
	if v.meet == nil {
		return nil
	}
	for _, r := range v.meet.Rendezvous {
		for _, p := range r.Participants {
			if !r.Complete || p.Rank != index || p.Host == "" {
				continue
			}
			n := v.byName(p.Host)
			if n == nil {
				n = &node{name: p.Host}
				v.nodes = append(v.nodes, n)
			}
			return n
		}
	}
	return nil
}

func (v *view) byName(name string) *node {
	return find(v.nodes, func(n *node) bool { return n.name == name })
}

// byIndex returns the node with a node rank; several may be on one host.
func (v *view) byIndex(i int) *node {
	for _, a := range v.agents {
		if n, err := strconv.Atoi(a.line.NodeRank.Value); err == nil && n == i && !elastic(a.line) {
			return a.node
		}
	}
	for _, s := range v.seats {
		if number(s.proc.Env, "GROUP_RANK") == i {
			return s.node
		}
	}
	return find(v.nodes, func(n *node) bool { return n.index == i })
}

// byIndexAgent returns the torchrun with a node rank.
func (v *view) byIndexAgent(i int) *agent {
	return find(v.agents, func(a *agent) bool { return v.indexOf(a) == i })
}

// indexOf returns the node rank of a torchrun: of its line, of its ranks, or of its host if no other one is there;
// -1: unknown.
func (v *view) indexOf(a *agent) int {
	if n, err := strconv.Atoi(a.line.NodeRank.Value); err == nil && !elastic(a.line) {
		return n
	}
	for _, s := range v.seats {
		if n := number(s.proc.Env, "GROUP_RANK"); n >= 0 && s.node == a.node && s.proc.Parent == a.proc.PID {
			return n
		}
	}
	if v.alone(a) {
		return a.node.index
	}
	return -1
}

// alone reports whether no other torchrun of the job is on the host of one.
func (v *view) alone(a *agent) bool {
	return !slices.ContainsFunc(v.agents, func(o *agent) bool { return o != a && o.node == a.node })
}

// shareOf returns the node rank that starts a rank, by the store; -1: unknown.
func (v *view) shareOf(rank int) int {
	i, found := slices.BinarySearchFunc(
		v.starts,
		rank,
		func(s tcpstore.Share, r int) int { return cmp.Compare(s.Base, r) },
	)
	if !found {
		i--
	}
	if i < 0 {
		return -1
	}
	return v.starts[i].Node
}

// nodeOf returns the node of a rank; nil: unknown.
func (v *view) nodeOf(rank int) *node {
	if s := v.seat(rank); s != nil {
		return s.node
	}
	if i := v.shareOf(rank); i >= 0 {
		return v.byIndex(i)
	}
	if b := v.blob(rank); b != nil {
		return v.byName(b.Host)
	}
	return nil
}

func (v *view) seat(rank int) *seat { return v.byRank[rank] }

// blob returns the address that a rank has published for the default group.
func (v *view) blob(rank int) *tcpstore.Blob { return v.blobs[rank] }

// index makes what is looked up often: a job may have thousands of ranks.
func (v *view) index() {
	v.byRank, v.blobs = map[int]*seat{}, map[int]*tcpstore.Blob{}
	for _, s := range v.seats {
		if v.byRank[s.rank] == nil {
			v.byRank[s.rank] = s
		}
	}
	if v.board == nil {
		return
	}
	for i, b := range v.board.Blobs {
		if b.Group == 0 {
			v.blobs[b.Index] = &v.board.Blobs[i]
		}
	}
	v.starts = slices.SortedFunc(slices.Values(v.board.Shares), func(a, b tcpstore.Share) int {
		return cmp.Compare(a.Base, b.Base)
	})
}

// ranksOf returns the ranks of a node, by its processes and by the store.
func (v *view) ranksOf(n *node) (out []int) {
	for r := range v.world {
		if v.nodeOf(r) == n {
			out = append(out, r)
		}
	}
	return out
}
