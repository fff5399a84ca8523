package fabric

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// confDir has the settings of IPv4 of each interface, and of all (Documentation/networking/ip-sysctl.rst).
const confDir = "sys/net/ipv4/conf"

// confOf returns a setting of an interface, of which the larger one counts: its own, or the one of all.
func confOf(proc fs.FS, setting, iface string) int {
	return max(confIn(proc, setting, "all"), confIn(proc, setting, iface))
}

// confIn returns a setting of one folder: of an interface, or all.
func confIn(proc fs.FS, setting, folder string) int {
	text, _ := fs.ReadFile(proc, path.Join(confDir, folder, setting))
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// setConf returns the command that changes a setting of all and of some interfaces. sysctl takes a "." in a name as
// "/".
func setConf(setting string, value int, ifaces ...string) string {
	text := fmt.Sprintf("sysctl -w net.ipv4.conf.all.%s=%d", setting, value)
	for _, i := range ifaces {
		text += fmt.Sprintf(" net.ipv4.conf.%s.%s=%d", strings.ReplaceAll(i, ".", "/"), setting, value)
	}
	return text
}
