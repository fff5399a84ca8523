package companion

import (
	"encoding/json"
	"fmt"
)

// abortNote returns the line that the companion prints where it ends by SIGABRT.
func abortNote(inJSON bool) string {
	const text = "launch's own process on this node has ended by SIGABRT: as a rule there was no room for one more " +
		"thread (ulimit -u, pids.max). Launch does not watch the job here any more; a command that runs goes on"
	if !inJSON {
		return "launch: " + text + "\n"
	}
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"type":"note","schema":1,"text":%s}`+"\n", quoted)
}
