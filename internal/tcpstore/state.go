package tcpstore

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
)

// nobody is the value of a state that no agent has written yet.
const nobody = "Y2FuaW1hZGFt"

// decodeState decodes c10d's state of one rendezvous id.
func decodeState(id string, value []byte) Rendezvous {
	r := Rendezvous{ID: id, Participants: []Participant{}}
	if string(value) == nobody {
		return r
	}
	raw, err := base64.StdEncoding.DecodeString(string(value))
	if err != nil {
		r.Unread = "not base64"
		return r
	}
	v, err := unpickle(raw)
	if err == nil {
		err = r.fill(v)
	}
	if err != nil {
		return Rendezvous{ID: id, Participants: []Participant{}, Unread: err.Error()}
	}
	return r
}

// fill takes a state apart.
func (r *Rendezvous) fill(v any) error {
	state, ok := v.(*object)
	if !ok || !strings.HasSuffix(state.class, "._RendezvousState") || state.state == nil {
		return errors.New("no state of c10d")
	}
	s := state.state
	var ok1, ok2, ok3, ok4 bool
	r.Round, ok1 = s.get("round").(int)
	r.Complete, ok2 = s.get("complete").(bool)
	r.Closed, ok3 = s.get("closed").(bool)
	participants, ok4 := s.get("participants").(*dict)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return errors.New("a state of c10d without its round or participants")
	}
	if waiting, ok := s.get("wait_list").(*set); ok {
		r.Waiting = len(waiting.items)
	}
	beats := map[any]time.Time{} // by the node as it was pickled: the same object
	if d, ok := s.get("last_heartbeats").(*dict); ok {
		for i, node := range d.keys {
			if o, ok := node.(*object); ok {
				beats[o] = moment(d.values[i])
			}
		}
	}
	for i, node := range participants.keys {
		p, ok := participant(node)
		if !ok {
			return errors.New("a participant without a host")
		}
		p.Rank, _ = participants.values[i].(int)
		p.Beat = beats[node]
		r.Participants = append(r.Participants, p)
	}
	slices.SortStableFunc(r.Participants, func(a, b Participant) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Host, b.Host), cmp.Compare(a.PID, b.PID))
	})
	return nil
}

// participant decodes a node of c10d.
func participant(v any) (p Participant, ok bool) {
	node, ok := v.(*object)
	if !ok || !strings.HasSuffix(node.class, "._NodeDesc") || node.state == nil {
		return p, false
	}
	p.PID, _ = node.state.get("pid").(int)
	if p.Host, ok = node.state.get("addr").(string); !ok {
		p.Host, ok = node.state.get("fqdn").(string) // torch 1.13
	}
	p.Host = clean(p.Host)
	return p, ok
}

// get returns the value of a key, or nil. Of two the later one holds, as in Python.
func (d *dict) get(key string) any {
	for i, k := range slices.Backward(d.keys) {
		if k == any(key) {
			return d.values[i]
		}
	}
	return nil
}

// moment decodes a datetime in UTC, which torch 1.13 writes without its zone; the zero time is none.
func moment(v any) time.Time {
	o, ok := v.(*object)
	if !ok || o.class != "datetime.datetime" || len(o.args) == 0 {
		return time.Time{}
	}
	b, ok := o.args[0].([]byte)
	if !ok || len(b) != 10 {
		return time.Time{}
	}
	year, micro := int(binary.BigEndian.Uint16(b)), int(b[7])<<16|int(b[8])<<8|int(b[9])
	return time.Date(year, time.Month(b[2]), int(b[3]), int(b[4]), int(b[5]), int(b[6]), micro*1000, time.UTC)
}
