package activity

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
)

// Recording is what a worker records of a session, and where.
type Recording struct {
	Video  bool   `json:"video"`
	Events bool   `json:"events"`
	Frames bool   `json:"frames"`
	HAR    bool   `json:"har"`
	Trace  bool   `json:"trace"`
	URL    string `json:"url"`
	Viewer string `json:"viewerUrl,omitempty"` // "" without a trace
}

// Value implements driver.Valuer.
func (r *Recording) Value() (driver.Value, error) {
	if r == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(*r)
	return string(raw), err
}

// Scan implements sql.Scanner.
func (r *Recording) Scan(value any) error {
	raw, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("a recording is a %T", value)
	}
	return json.Unmarshal(raw, r)
}
