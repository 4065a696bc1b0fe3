package activity

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
)

// Metadata are the labels of a session. Nil and empty are stored as NULL.
type Metadata map[string]string

// Value implements driver.Valuer.
func (m Metadata) Value() (driver.Value, error) {
	if len(m) == 0 {
		return nil, nil //nolint:nilnil // NULL
	}
	raw, err := json.Marshal(map[string]string(m))
	return string(raw), err
}

// Scan implements sql.Scanner.
func (m *Metadata) Scan(value any) error {
	if value == nil {
		*m = nil
		return nil
	}
	raw, ok := value.([]byte)
	if !ok {
		return fmt.Errorf("metadata is a %T", value)
	}
	return json.Unmarshal(raw, (*map[string]string)(m))
}
