package command

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/preflight"
)

// A hung file system would hold the command, too: that is a failure of the node, and not a command that is missing.
func TestAFileSystemThatDoesNotAnswerIsAFailure(t *testing.T) {
	late := fmt.Errorf("no answer within 8s: %w", os.ErrDeadlineExceeded)
	in := preflight.Input{LookPath: func(string) (string, error) { return "", late },
		Stat: func(string) (fs.FileMode, error) { return 0, late }}
	in.Job.Line.Argv, in.Job.Line.Script = []string{"python", "/data/t.py"}, 1
	for _, f := range []finding.Finding{commandFound(t.Context(), in), commandScript(t.Context(), in)} {
		if f.Status != finding.Fail || f.ID != "storage.answers" || !strings.Contains(f.What, "does not answer") {
			t.Errorf("%+v", f)
		}
	}
}
