package flight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A pickle is a program; this interpreter runs the instructions that torch's C++ pickler writes for a dump, builds
// plain values, and calls nothing. It refuses everything else.

const maxWork = 1 << 24 // units: a value is one, a container four

// dict has its keys in the order of the pickle.
type dict struct {
	keys   []string
	values []any
}

// list is a list or a tuple.
type list struct{ items []any }

type vm struct {
	in    string
	stack []any
	marks []int
	memo  map[uint32]any
	left  int
}

var (
	errShort = errors.New("the pickle ends early")
	errLarge = errors.New("the pickle builds too many values")
)

// The instructions whose names help a reader of an error.
var refused = map[byte]string{
	'c': "GLOBAL", 'R': "REDUCE", 'b': "BUILD", 'i': "INST", 'o': "OBJ", 0x81: "NEWOBJ", 0x92: "NEWOBJ_EX",
	0x93: "STACK_GLOBAL", 'P': "PERSID", 'Q': "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
	0x8b: "LONG4", 0x8d: "BINUNICODE8", 0x95: "FRAME", 0x94: "MEMOIZE", 'I': "INT", 'S': "STRING", 'p': "PUT",
}

// unpickle returns what a pickle of protocol 2 builds: nil, bool, int64, float64, string, *list and *dict. Strings
// are parts of the input.
func unpickle(in string) (any, error) {
	m := vm{in: in, memo: map[uint32]any{}, left: maxWork}
	for {
		op, err := m.take(1)
		if err != nil {
			return nil, err
		}
		if op == "." { // STOP
			if len(m.stack) != 1 || len(m.marks) != 0 || m.in != "" {
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
		if v, err := m.take(1); err != nil || v != "\x02" {
			return errors.New("a pickle of another protocol than 2")
		}
		return nil
	case '(': // MARK
		m.marks = append(m.marks, len(m.stack))
		return m.work(1)
	case 'N': // NONE
		return m.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return m.push(op == 0x88)
	case '}': // EMPTY_DICT
		return m.container(&dict{})
	case ']', ')': // EMPTY_LIST, EMPTY_TUPLE
		return m.container(&list{})
	case 'K', 'M', 'J', 0x8a, 'G': // BININT1, BININT2, BININT, LONG1, BINFLOAT
		return m.number(op)
	case 'X': // BINUNICODE
		return m.text()
	case 'q', 'r', 'h', 'j': // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
		return m.remember(op)
	case 't', 0x85, 0x86, 0x87: // TUPLE, TUPLE1 to TUPLE3
		return m.tuple(op)
	case 'a', 'e': // APPEND, APPENDS
		return m.extend(op)
	case 's', 'u': // SETITEM, SETITEMS
		return m.fill(op)
	}
	if name := refused[op]; name != "" {
		return fmt.Errorf("a pickle with the instruction %s, which no dump has", name)
	}
	return fmt.Errorf("a pickle with the instruction 0x%02x, which no dump has", op)
}

func (m *vm) work(n int) error {
	if m.left -= n; m.left < 0 {
		return errLarge
	}
	return nil
}

func (m *vm) push(v any) error {
	m.stack = append(m.stack, v)
	return m.work(1)
}

func (m *vm) container(v any) error {
	m.stack = append(m.stack, v)
	return m.work(4)
}

func (m *vm) take(n int) (string, error) {
	if n < 0 || len(m.in) < n {
		return "", errShort
	}
	out := m.in[:n]
	m.in = m.in[n:]
	return out, nil
}

func (m *vm) little(n int) (uint64, error) {
	var b [8]byte
	in, err := m.take(n)
	copy(b[:], in)
	return binary.LittleEndian.Uint64(b[:]), err
}

func (m *vm) number(op byte) error {
	n := map[byte]int{'K': 1, 'M': 2, 'J': 4, 'G': 8}[op]
	if op == 0x8a {
		size, err := m.little(1)
		if err != nil || size > 8 {
			return errors.Join(err, errors.New("a pickle with an integer of more than 64 bits"))
		}
		n = int(size)
	}
	v, err := m.little(n)
	if err != nil {
		return err
	}
	switch op {
	case 'J':
		return m.push(int64(int32(v)))
	case 'G':
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], v)
		return m.push(math.Float64frombits(binary.BigEndian.Uint64(b[:])))
	case 0x8a:
		shift := 64 - 8*n
		return m.push(int64(v<<shift) >> shift)
	}
	return m.push(int64(v))
}

func (m *vm) text() error {
	n, err := m.little(4)
	if err != nil {
		return err
	}
	s, err := m.take(int(n))
	if err != nil {
		return err
	}
	return m.push(s)
}

func (m *vm) remember(op byte) error {
	n := 1
	if op == 'r' || op == 'j' {
		n = 4
	}
	at, err := m.little(n)
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' {
		v, ok := m.memo[uint32(at)]
		if !ok {
			return errors.New("a pickle that names what it has not stored")
		}
		return m.push(v)
	}
	if len(m.stack) == 0 {
		return errShort
	}
	m.memo[uint32(at)] = m.stack[len(m.stack)-1]
	return m.work(4)
}

// since removes and returns what is above the last mark.
func (m *vm) since() ([]any, error) {
	if len(m.marks) == 0 {
		return nil, errShort
	}
	from := m.marks[len(m.marks)-1]
	m.marks = m.marks[:len(m.marks)-1]
	return m.pop(len(m.stack) - from)
}

// pop removes and returns the last values; the next push overwrites them. A mark among them is damage.
func (m *vm) pop(n int) ([]any, error) {
	low := len(m.stack) - n
	if n < 0 || low < 0 || len(m.marks) > 0 && m.marks[len(m.marks)-1] > low {
		return nil, errShort
	}
	out := m.stack[low:]
	m.stack = m.stack[:low]
	return out, nil
}

func (m *vm) some(marked bool, n int) ([]any, error) {
	if marked {
		return m.since()
	}
	return m.pop(n)
}

func (m *vm) tuple(op byte) error {
	items, err := m.some(op == 't', int(op)-0x84)
	if err != nil {
		return err
	}
	return m.container(&list{append([]any(nil), items...)})
}

func (m *vm) extend(op byte) error {
	items, err := m.some(op == 'e', 1)
	if err != nil {
		return err
	}
	if len(m.stack) == 0 {
		return errShort
	}
	to, ok := m.stack[len(m.stack)-1].(*list)
	if !ok {
		return errors.New("a pickle that appends to what is no list")
	}
	to.items = append(to.items, items...)
	return nil
}

func (m *vm) fill(op byte) error {
	items, err := m.some(op == 'u', 2)
	if err != nil {
		return err
	}
	if len(m.stack) == 0 || len(items)%2 != 0 {
		return errShort
	}
	to, ok := m.stack[len(m.stack)-1].(*dict)
	if !ok {
		return errors.New("a pickle that fills what is no dict")
	}
	for i := 0; i < len(items); i += 2 {
		key, ok := items[i].(string)
		if !ok {
			return errors.New("a pickle of a dict whose keys are no text")
		}
		to.keys, to.values = append(to.keys, key), append(to.values, items[i+1])
	}
	return nil
}
