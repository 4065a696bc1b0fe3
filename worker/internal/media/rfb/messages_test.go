package rfb_test

import (
	"encoding/binary"
	"slices"
)

func encodingsMessage(encodings ...int32) []byte {
	m := []byte{2, 0, 0, byte(len(encodings))}
	for _, e := range encodings {
		m = binary.BigEndian.AppendUint32(m, uint32(e))
	}
	return m
}

// keys returns the events of pressing and releasing each key.
func keys(keysyms ...uint32) []byte {
	var m []byte
	for _, k := range keysyms {
		m = append(m, holdKey(k, 1)...)
		m = append(m, holdKey(k, 0)...)
	}
	return m
}

func holdKey(keysym uint32, down byte) []byte {
	return binary.BigEndian.AppendUint32([]byte{4, down, 0, 0}, keysym)
}

func pointer(buttons byte, x, y int) []byte {
	return []byte{5, buttons, byte(x >> 8), byte(x), byte(y >> 8), byte(y)}
}

func click(x, y int) []byte {
	return slices.Concat(pointer(0, x, y), pointer(1, x, y), pointer(0, x, y))
}

func cutText(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{6, 0, 0, 0}, uint32(len(text))), text...)
}
