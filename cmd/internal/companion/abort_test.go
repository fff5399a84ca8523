package companion

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheNoteOfAnAbortIsALineInBothForms(t *testing.T) {
	plain, line := abortNote(false), abortNote(true)
	var note struct{ Type, Text string }
	err := json.Unmarshal([]byte(line), &note)
	if err != nil || note.Type != "note" || plain != "launch: "+note.Text+"\n" {
		t.Errorf("%v: %q and %q", err, plain, line)
	}
	if strings.Count(plain, "\n") != 1 || strings.Count(line, "\n") != 1 || len(line) >= 1024 {
		t.Errorf("not one line that fits: %q, %q", plain, line)
	}
}
