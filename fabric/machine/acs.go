package machine

import "encoding/binary"

// acsConfig returns a bridge's registers for fabric.ReadACS: a list of extended
// capabilities with only Access Control Services, with redirection on or off. "" gives
// the 64 bytes that an unprivileged user can read.
func acsConfig(state string) string {
	if state == "" {
		return string(make([]byte, 64))
	}
	b := make([]byte, 0x108)
	binary.LittleEndian.PutUint32(b[0x100:], 0x0001000d)
	if state == "on" {
		binary.LittleEndian.PutUint16(b[0x106:], 0x0c)
	}
	return string(b)
}
