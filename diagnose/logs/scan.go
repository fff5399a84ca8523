package logs

// scanner finds which of many words are in a line, in one pass (Aho and Corasick).
type scanner struct {
	class [256]uint8 // of a byte; 0: in no word
	width int
	next  []uint32 // state*width + class: the offset of the next state
	final uint32   // from this offset on, a state ends a word
	words [][]int32
}

type trieNode struct {
	child map[uint8]int
	fail  int
	out   []int32
}

func newScanner(words []string) *scanner {
	s := &scanner{width: 1}
	for _, w := range words {
		for i := range len(w) {
			if s.class[w[i]] == 0 {
				s.class[w[i]] = uint8(s.width)
				s.width++
			}
		}
	}
	nodes := trie(words, &s.class)
	order := breadthFirst(nodes)
	s.number(nodes, order)
	return s
}

func trie(words []string, class *[256]uint8) []trieNode {
	nodes := []trieNode{{child: map[uint8]int{}}}
	for id, w := range words {
		at := 0
		for i := range len(w) {
			c := class[w[i]]
			to, ok := nodes[at].child[c]
			if !ok {
				to = len(nodes)
				nodes = append(nodes, trieNode{child: map[uint8]int{}})
				nodes[at].child[c] = to
			}
			at = to
		}
		nodes[at].out = append(nodes[at].out, int32(id))
	}
	return nodes
}

// breadthFirst sets where each node falls back to, and returns the nodes by depth.
func breadthFirst(nodes []trieNode) []int {
	order := []int{0}
	for i := 0; i < len(order); i++ {
		at := order[i]
		for c, to := range nodes[at].child {
			order = append(order, to)
			if at == 0 {
				continue
			}
			f := nodes[at].fail
			for {
				if n, ok := nodes[f].child[c]; ok {
					nodes[to].fail = n
					break
				}
				if f == 0 {
					break
				}
				f = nodes[f].fail
			}
		}
		nodes[at].out = append(nodes[at].out, nodes[nodes[at].fail].out...)
	}
	return order
}

// number writes the table of states. States that end a word are the last ones.
func (s *scanner) number(nodes []trieNode, order []int) {
	offset := make([]uint32, len(nodes))
	n := uint32(0)
	for _, ends := range []bool{false, true} {
		if ends {
			s.final = n * uint32(s.width)
		}
		for _, at := range order {
			if len(nodes[at].out) > 0 == ends {
				offset[at] = n * uint32(s.width)
				n++
			}
		}
	}
	s.next = make([]uint32, len(nodes)*s.width)
	s.words = make([][]int32, len(nodes))
	for _, at := range order { // parents and fallbacks first
		row := s.next[offset[at] : offset[at]+uint32(s.width)]
		if at != 0 {
			back := offset[nodes[at].fail]
			copy(row, s.next[back:back+uint32(s.width)])
		} else {
			for c := range row {
				row[c] = offset[0]
			}
		}
		for c, to := range nodes[at].child {
			row[c] = offset[to]
		}
		s.words[offset[at]/uint32(s.width)] = nodes[at].out
	}
}

// find adds the words of a line to hits, each once.
func (s *scanner) find(line []byte, hits []int32) []int32 {
	var at uint32
	next, final := s.next, s.final
	for _, b := range line {
		at = next[at+uint32(s.class[b])]
		if at >= final {
			hits = s.add(hits, at)
		}
	}
	return hits
}

func (s *scanner) add(hits []int32, at uint32) []int32 {
	const most = 32
next:
	for _, w := range s.words[at/uint32(s.width)] {
		for _, h := range hits {
			if h == w {
				continue next
			}
		}
		if len(hits) < most {
			hits = append(hits, w)
		}
	}
	return hits
}
