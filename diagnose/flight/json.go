package flight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

const (
	maxEntry   = 1 << 20 // bytes of one entry in JSON
	maxSection = 1 << 24
)

var errNoDump = errors.New("is no dump")

// fromJSON returns the dump that torch._C._distributed_c10d._dump_fr_trace_json wrote. It has no frames.
func (r *reader) fromJSON(in io.Reader) (Dump, error) {
	dec := json.NewDecoder(in)
	d := Dump{Groups: map[string][]int{}, Status: map[int64]Status{}}
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Dump{}, errNoDump
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return Dump{}, err
		}
		if key == "entries" {
			err = r.jsonEntries(dec, &d)
		} else {
			name, _ := key.(string)
			err = r.section(dec, name, &d)
		}
		if err != nil {
			return Dump{}, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return Dump{}, err
	}
	if d.Version == "" {
		return Dump{}, errNoDump
	}
	return d, version(d.Version)
}

func (r *reader) jsonEntries(dec *json.Decoder, d *Dump) error {
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return errNoDump
	}
	for dec.More() {
		var text json.RawMessage
		var e raw
		if err := dec.Decode(&text); err != nil {
			return err
		}
		if len(text) > maxEntry || len(d.Entries) >= maxEntries {
			return errLarge
		}
		if err := json.Unmarshal(text, &e); err != nil {
			return fmt.Errorf("entry %d: %w", len(d.Entries), err)
		}
		d.Entries = append(d.Entries, r.entry(e))
	}
	_, err := dec.Token()
	return err
}

func (r *reader) section(dec *json.Decoder, key string, d *Dump) error {
	var text json.RawMessage
	if err := dec.Decode(&text); err != nil {
		return err
	}
	if len(text) > maxSection {
		if key == "nccl_comm_state" {
			return nil
		}
		return errLarge
	}
	switch key {
	case "version":
		return json.Unmarshal(text, &d.Version)
	case "pg_config":
		var all map[string]struct {
			Ranks string `json:"ranks"`
		}
		if json.Unmarshal(text, &all) != nil {
			return errNoDump
		}
		for name, group := range all {
			d.Groups[r.text(name)] = ranks(group.Ranks)
		}
	case "pg_status":
		var all map[string]map[string]string
		if json.Unmarshal(text, &all) != nil {
			return errNoDump
		}
		for name, group := range all {
			id, _ := strconv.ParseInt(name, 10, 64)
			d.Status[id] = Status{count(group["last_enqueued_collective"]), count(group["last_started_collective"]),
				count(group["last_completed_collective"])}
		}
	}
	return nil
}

func count(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
