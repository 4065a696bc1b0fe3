package proof_test

import (
	"database/sql/driver"
	"errors"
	"io"
)

// bufferedRows is an answer that was read whole.
type bufferedRows struct {
	columns []string
	rows    [][]driver.Value
}

func bufferRows(rows driver.Rows) (*bufferedRows, error) {
	defer rows.Close()
	m := &bufferedRows{columns: rows.Columns()}
	for {
		row := make([]driver.Value, len(m.columns))
		if err := rows.Next(row); errors.Is(err, io.EOF) {
			return m, nil
		} else if err != nil {
			return nil, err
		}
		for i, value := range row {
			if bytes, ok := value.([]byte); ok {
				row[i] = append([]byte(nil), bytes...)
			}
		}
		m.rows = append(m.rows, row)
	}
}

// Columns implements driver.Rows.
func (m *bufferedRows) Columns() []string { return m.columns }

// Close implements driver.Rows.
func (m *bufferedRows) Close() error { return nil }

// Next implements driver.Rows.
func (m *bufferedRows) Next(dest []driver.Value) error {
	if len(m.rows) == 0 {
		return io.EOF
	}
	copy(dest, m.rows[0])
	m.rows = m.rows[1:]
	return nil
}
