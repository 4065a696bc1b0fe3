package rfb

import "github.com/browser-svc/svc/worker/internal/media/keys"

// keyboard records which keys are held.
type keyboard struct{ held map[uint32]bool }

// maxHeld limits the keys held at once.
const maxHeld = 256

// keyInput returns the event for a key and records whether the key is held.
func (k *keyboard) keyInput(m keyMessage) keys.Input {
	repeated := k.held[m.keysym]
	if !m.down {
		delete(k.held, m.keysym)
	} else if len(k.held) < maxHeld {
		k.held[m.keysym] = true
	}
	in := keys.Lookup(m.keysym).Event(m.down, k.modifiers())
	in.AutoRepeat = m.down && repeated
	return in
}

func (k *keyboard) modifiers() int {
	bits := 0
	for keysym := range k.held {
		bits |= keys.Lookup(keysym).Modifier
	}
	return bits
}
