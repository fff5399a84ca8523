package machine

import "encoding/binary"

// acsConfig is the registers of a bridge, as far as fabric.ReadACS looks: a list
// of extended capabilities that has Access Control Services alone, with
// redirection on or off; "" is what an unprivileged user reads, 64 bytes.
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
