package logs

// scanner finds which of many words are in a line, in one pass (Aho and Corasick).
type scanner struct {
	class [256]uint8 // of a byte; 0: in no word
	width int
	next  []uint32 // state*width + class: the offset of the next state
	final uint32   // from this offset on, a state ends a word
	words [][]int32
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
	next, out := s.trie(words)
	s.number(next, out, s.complete(next, out))
	return s
}

// trie returns the next node of each node and class, 0 where the words have no such node, and the words that end in a
// node.
func (s *scanner) trie(words []string) (next []uint32, out [][]int32) {
	most := 1
	for _, w := range words {
		most += len(w)
	}
	next, out = make([]uint32, s.width, most*s.width), make([][]int32, 1, most)
	for id, w := range words {
		at := 0
		for i := range len(w) {
			to := &next[at*s.width+int(s.class[w[i]])]
			if *to == 0 {
				*to = uint32(len(out))
				at = len(out)
				next, out = next[:len(next)+s.width], append(out, nil)
				continue
			}
			at = int(*to)
		}
		out[at] = append(out[at], int32(id))
	}
	return next, out
}

// complete lets each node go on where the longest end of its text does that begins a word, and returns the nodes by
// depth.
func (s *scanner) complete(next []uint32, out [][]int32) []uint32 {
	fall := make([]uint32, len(out))
	order := make([]uint32, 1, len(out))
	for i := 0; i < len(order); i++ {
		at := order[i]
		row := next[int(at)*s.width : (int(at)+1)*s.width]
		back := next[int(fall[at])*s.width : (int(fall[at])+1)*s.width]
		for c, to := range row {
			switch {
			case to == 0:
				row[c] = back[c]
			default:
				if order = append(order, to); at != 0 {
					fall[to] = back[c]
				}
				out[to] = append(out[to], out[fall[to]]...)
			}
		}
	}
	return order
}

// number writes the table of states. States that end a word are the last ones.
func (s *scanner) number(next []uint32, out [][]int32, order []uint32) {
	offset := make([]uint32, len(out))
	n := uint32(0)
	for _, ends := range []bool{false, true} {
		if ends {
			s.final = n * uint32(s.width)
		}
		for _, at := range order {
			if len(out[at]) > 0 == ends {
				offset[at] = n * uint32(s.width)
				n++
			}
		}
	}
	s.next, s.words = make([]uint32, len(next)), make([][]int32, len(out))
	for at := range out {
		for c, to := range next[at*s.width : (at+1)*s.width] {
			s.next[int(offset[at])+c] = offset[to]
		}
		s.words[offset[at]/uint32(s.width)] = out[at]
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
