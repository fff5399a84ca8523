package scene

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// The limits of a scene that another node sent. What Take returns is within them.
const (
	boundText  = 8 << 10 // bytes of one text
	boundItems = 128 << 10
	boundFix   = 8       // lines of commands
	boundAll   = 4 << 20 // values in all
	// boundCommas is how many commas a scene has as JSON: each value, however short, may take 500 bytes of memory.
	boundCommas = 1 << 19
)

// Parse reads a scene that another node sent, within bounded memory, and bounds it.
func Parse(text []byte) (s Scene, err error) {
	if n := bytes.Count(text, []byte(",")); n > boundCommas {
		return s, fmt.Errorf("scene has %d commas, at most %d are read", n, boundCommas)
	}
	if err = json.Unmarshal(text, &s); err != nil {
		return Scene{}, fmt.Errorf("no scene: %w", err)
	}
	return s, s.Bound()
}

// Sound returns why a scene that another node sent cannot be used: another schema, more values than a node has, or
// a time that cannot be written.
func (s Scene) Sound() error {
	if s.Schema != Schema {
		return fmt.Errorf("scene of schema %d, this launch reads %d", s.Schema, Schema)
	}
	if s.Span < 0 || s.Span > time.Hour {
		return fmt.Errorf("scene of %v", s.Span)
	}
	w := walker{}
	return w.walk(reflect.ValueOf(&s).Elem(), "scene")
}

// Bound removes control characters from all texts of a scene that another node sent, and cuts long ones. It
// changes the scene, what its fields point to as well. The error is that of Sound.
func (s *Scene) Bound() error {
	if err := s.Sound(); err != nil {
		return err
	}
	w := walker{fix: true}
	return w.walk(reflect.ValueOf(s).Elem(), "scene")
}

// walker goes through all values of a scene.
type walker struct {
	fix   bool
	count int
}

func (w *walker) walk(v reflect.Value, name string) error {
	if w.count++; w.count > boundAll {
		return fmt.Errorf("scene has more than %d values", boundAll)
	}
	switch v.Kind() {
	case reflect.String:
		switch {
		case w.fix && name == "Fix": // commands, one a line
			lines := strings.SplitN(v.String()[:min(v.Len(), boundText)], "\n", boundFix)
			for i := range lines {
				lines[i] = clean(lines[i], boundText)
			}
			v.SetString(strings.Join(lines, "\n"))
		case w.fix:
			v.SetString(clean(v.String(), boundText))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return w.walk(v.Elem(), name)
		}
	case reflect.Slice:
		if v.Len() > boundItems {
			return fmt.Errorf("%s has %d items, at most %d are read", name, v.Len(), boundItems)
		}
		for i := range v.Len() {
			if err := w.walk(v.Index(i), name); err != nil {
				return err
			}
		}
	case reflect.Map:
		return w.walkMap(v, name)
	case reflect.Struct:
		return w.walkStruct(v, name)
	}
	return nil
}

// walkStruct goes through the fields. The zone of an address may be any text.
func (w *walker) walkStruct(v reflect.Value, name string) error {
	switch x := v.Interface().(type) {
	case time.Time:
		if y := x.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("%s is in the year %d", name, y)
		}
		return nil
	case netip.Addr:
		if w.fix {
			v.Set(reflect.ValueOf(x.WithZone(clean(x.Zone(), maxHost))))
		}
		return nil
	case netip.AddrPort:
		if w.fix {
			a := x.Addr().WithZone(clean(x.Addr().Zone(), maxHost))
			v.Set(reflect.ValueOf(netip.AddrPortFrom(a, x.Port())))
		}
		return nil
	}
	for f, field := range v.Fields() {
		if !f.IsExported() {
			continue
		}
		if err := w.walk(field, f.Name); err != nil {
			return err
		}
	}
	return nil
}

// walkMap goes through a map of texts.
func (w *walker) walkMap(v reflect.Value, name string) error {
	if v.Len() > boundItems {
		return fmt.Errorf("%s has %d items, at most %d are read", name, v.Len(), boundItems)
	}
	w.count += v.Len()
	m, ok := v.Interface().(map[string]string)
	if !ok || !w.fix || m == nil { // a nil Env is one that could not be read
		return nil
	}
	fixed := make(map[string]string, len(m))
	for k, value := range m {
		fixed[clean(k, boundText)] = clean(value, boundText)
	}
	v.Set(reflect.ValueOf(fixed))
	return nil
}
