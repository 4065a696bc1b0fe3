package rfb

import "github.com/browser-svc/svc/worker/internal/media/keys"

// keyboard records which keys are held.
type keyboard struct{ keysyms map[uint32]bool }

// maxHeld limits the keys held at once.
const maxHeld = 256

// keyInput returns the event for a key and records whether the key is held.
func (k *keyboard) keyInput(m keyMessage) keys.Input {
	repeated := k.keysyms[m.keysym]
	if !m.down {
		delete(k.keysyms, m.keysym)
	} else if len(k.keysyms) < maxHeld {
		k.keysyms[m.keysym] = true
	}
	input := keys.Lookup(m.keysym).Event(m.down, k.modifiers())
	input.AutoRepeat = m.down && repeated
	return input
}

func (k *keyboard) modifiers() int {
	bits := 0
	for keysym := range k.keysyms {
		bits |= keys.Lookup(keysym).Modifier
	}
	return bits
}
