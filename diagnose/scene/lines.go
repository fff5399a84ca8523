package scene

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Lines returns the scenes of lines of launch doctor --json; an error: they are no such lines.
func Lines(text []byte) (out []Scene, err error) {
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var one struct {
			Type   string            `json:"type"`
			Scenes []json.RawMessage `json:"scenes"`
		}
		switch err := d.Decode(&one); {
		case errors.Is(err, io.EOF):
			if len(out) == 0 {
				return nil, errors.New("has no line of launch doctor --json")
			}
			return out, nil
		case err != nil:
			return nil, errors.New("is no output of launch doctor --json")
		}
		if one.Type != "doctor" {
			continue
		}
		for _, text := range one.Scenes {
			s, err := Parse(text)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
}
