package tcpstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A pickle is a program; this interpreter runs the few instructions that Python 3.8 to 3.14 needs for c10d's
// state, builds plain values, and calls nothing. It refuses everything else.

// The classes that a state names. Building one stores what it was given.
var classes = []string{
	"torch.distributed.elastic.rendezvous.dynamic_rendezvous._RendezvousState",
	"torch.distributed.elastic.rendezvous.dynamic_rendezvous._NodeDesc",
	"datetime.datetime", "datetime.timezone", "datetime.timedelta",
}

// object is an instance of a class, or the class itself.
type object struct {
	class string
	args  []any
	state *dict
}

// dict is a Python dict in the order of its insertions; a set has no values. Keys may be objects, so that it is
// no map.
type dict struct{ keys, values []any }

type set struct{ items []any }

// mark is what MARK leaves on the stack.
type mark struct{}

type vm struct {
	in    []byte
	stack []any
	memo  []any
}

var errShort = errors.New("the pickle ends early")

// unpickle returns what a pickle of protocol 4 builds: bool, int, string, []byte, nil, []any for a tuple, *dict,
// *set and *object.
func unpickle(in []byte) (any, error) {
	m := vm{in: in}
	for {
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' { // STOP
			if len(m.stack) != 1 || len(m.in) != 0 {
				return nil, errors.New("the pickle leaves something over")
			}
			return m.stack[0], nil
		}
		if err := m.step(op[0]); err != nil {
			return nil, err
		}
	}
}

func (m *vm) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		if v, err := m.take(1); err != nil || v[0] != 4 {
			return cmp.Or(err, errors.New("a pickle of another protocol than 4"))
		}
	case 0x95: // FRAME
		_, err := m.take(8)
		return err
	case 0x94: // MEMOIZE
		if len(m.stack) == 0 {
			return errShort
		}
		m.memo = append(m.memo, m.stack[len(m.stack)-1])
	case 'h', 'j': // BINGET, LONG_BINGET
		return m.recall(map[byte]int{'h': 1, 'j': 4}[op])
	case '(', 'N', 0x88, 0x89, '}', 0x8f, ')':
		m.push(constant(op))
	case 'K', 'M', 'J': // BININT1, BININT2, BININT
		return m.integer(map[byte]int{'K': 1, 'M': 2, 'J': 4}[op])
	case 'C', 0x8c: // SHORT_BINBYTES, SHORT_BINUNICODE
		return m.text(op == 'C')
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		items, err := m.pop(int(op) - 0x84)
		if err != nil {
			return err
		}
		m.push(items)
	case 's', 'u', 0x90: // SETITEM, SETITEMS, ADDITEMS
		return m.fill(op)
	case 0x93, 0x81, 'R', 'b': // STACK_GLOBAL, NEWOBJ, REDUCE, BUILD
		return m.build(op)
	default:
		return fmt.Errorf("a pickle with the instruction 0x%02x, which c10d's state does not need", op)
	}
	return nil
}

// constant is what an instruction without an operand pushes.
func constant(op byte) any {
	switch op {
	case '(': // MARK
		return mark{}
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return op == 0x88
	case '}': // EMPTY_DICT
		return &dict{}
	case 0x8f: // EMPTY_SET
		return &set{}
	case ')': // EMPTY_TUPLE
		return []any{}
	}
	return nil // NONE
}

func (m *vm) push(v any) { m.stack = append(m.stack, v) }

func (m *vm) take(n int) ([]byte, error) {
	if len(m.in) < n {
		return nil, errShort
	}
	out := m.in[:n]
	m.in = m.in[n:]
	return out, nil
}

func (m *vm) pop(n int) ([]any, error) {
	if len(m.stack) < n {
		return nil, errShort
	}
	out := slices.Clone(m.stack[len(m.stack)-n:])
	m.stack = m.stack[:len(m.stack)-n]
	return out, nil
}

func (m *vm) little(n int) (uint32, error) {
	var b [4]byte
	in, err := m.take(n)
	copy(b[:], in)
	return binary.LittleEndian.Uint32(b[:]), err
}

func (m *vm) recall(n int) error {
	i, err := m.little(n)
	if err != nil || int64(i) >= int64(len(m.memo)) {
		return cmp.Or(err, errors.New("a pickle that names what it has not kept"))
	}
	m.push(m.memo[i])
	return nil
}

func (m *vm) integer(n int) error {
	i, err := m.little(n)
	m.push(int(int32(i)))
	return err
}

func (m *vm) text(raw bool) error {
	n, err := m.take(1)
	if err != nil {
		return err
	}
	b, err := m.take(int(n[0]))
	if raw {
		m.push(b)
	} else {
		m.push(string(b))
	}
	return err
}

// fill puts what is on the stack into the dict or set below it.
func (m *vm) fill(op byte) error {
	from := len(m.stack) - 2
	if op != 's' {
		from = len(m.stack)
		for from--; from >= 0 && m.stack[from] != any(mark{}); from-- {
		}
	}
	if from < 1 {
		return errShort
	}
	items := m.stack[from:]
	if op != 's' {
		items = items[1:]
	}
	target := m.stack[from-1]
	m.stack = m.stack[:from]
	switch to := target.(type) {
	case *dict:
		if op == 0x90 || len(items)%2 != 0 {
			return errors.New("a pickle that fills a dict wrongly")
		}
		for pair := range slices.Chunk(items, 2) {
			to.keys, to.values = append(to.keys, pair[0]), append(to.values, pair[1])
		}
	case *set:
		if op != 0x90 {
			return errors.New("a pickle that fills a set wrongly")
		}
		to.items = append(to.items, items...)
	default:
		return errors.New("a pickle that fills what is neither a dict nor a set")
	}
	return nil
}

// build names a class, makes an object of one, or gives an object its state.
func (m *vm) build(op byte) error {
	two, err := m.pop(2)
	if err != nil {
		return err
	}
	below, top := two[0], two[1]
	if op == 0x93 {
		module, ok1 := below.(string)
		name, ok2 := top.(string)
		if class := module + "." + name; ok1 && ok2 && slices.Contains(classes, class) {
			m.push(&object{class: class})
			return nil
		}
		return fmt.Errorf("a pickle with the class %.80q, which c10d's state does not need", module+"."+name)
	}
	of, ok := below.(*object)
	if !ok {
		return errors.New("a pickle that builds no object")
	}
	if op == 'b' {
		of.state, ok = top.(*dict)
		m.push(of)
	} else {
		var args []any
		args, ok = top.([]any)
		m.push(&object{class: of.class, args: args})
	}
	if !ok {
		return errors.New("a pickle that builds an object of something strange")
	}
	return nil
}
