package recording

import "time"

// Tabs derives events from the states of tabs.
type Tabs struct {
	add       func(Event)
	addresses map[string]string // by target id
}

// NewTabs returns Tabs without any tab.
func NewTabs(add func(Event)) *Tabs { return &Tabs{add: add, addresses: map[string]string{}} }

// Seen records that a tab has an address.
func (t *Tabs) Seen(id, address string) {
	previous, open := t.addresses[id]
	t.addresses[id] = address
	if !open {
		t.add(Event{At: time.Now(), Kind: TabOpened, TargetID: id})
	}
	if address != previous && address != "" && (open || address != "about:blank") {
		t.add(Event{At: time.Now(), Kind: Navigation, TargetID: id, URL: address})
	}
}

// Closed records that a tab was closed.
func (t *Tabs) Closed(id string) {
	if _, open := t.addresses[id]; open {
		delete(t.addresses, id)
		t.add(Event{At: time.Now(), Kind: TabClosed, TargetID: id})
	}
}
