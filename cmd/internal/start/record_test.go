package start

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Package ui checks the types of the fields.
func TestEveryFieldOfTheRecordIsInThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Record]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/json.md does not name %q", name)
		}
	}
}
