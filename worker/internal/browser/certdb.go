package browser

import (
	"crypto/sha1" //nolint:gosec // NSS finds trust by this hash
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The certificate database of NSS is an SQLite file with a table of PKCS #11 objects. Its
// columns are attributes, named by their numbers. The others that NSS knows may be missing.
const (
	certDBTable  = "nssPublic"
	certDBSchema = "CREATE TABLE nssPublic (id INTEGER PRIMARY KEY, a0, a1, a2, a11, a80, a81, a82, a101, a102, a170, ace536358, ace5363b4)"
)

var (
	attributeTrue, attributeFalse = []byte{1}, []byte{0}
	x509Certificate               = []byte{0, 0, 0, 0}             // CKC_X_509
	certificateObject             = []byte{0, 0, 0, 1}             // CKO_CERTIFICATE
	trustObject                   = []byte{0xce, 0x53, 0x43, 0x53} // CKO_NSS_TRUST
	trustedDelegator              = []byte{0xce, 0x53, 0x43, 0x52} // CKT_NSS_TRUSTED_DELEGATOR
)

// certificateDB returns a certificate database in which these authorities are trusted for
// the certificates of servers.
func certificateDB(authorities []*x509.Certificate) ([]byte, error) {
	var rows [][]byte
	add := func(attributes ...[]byte) {
		fields := []sqliteField{{}} // the id is the number of the row
		for _, value := range attributes {
			fields = append(fields, sqliteBlob(value))
		}
		rows = append(rows, sqliteRow(len(rows)+1, fields...))
	}
	for _, authority := range authorities {
		serial, err := asn1.Marshal(authority.SerialNumber)
		if err != nil {
			return nil, fmt.Errorf("certificate authority %s: %w", authority.Subject, err)
		}
		if len(authority.Raw) > maxSQLiteRow/2 {
			return nil, fmt.Errorf("certificate authority %s: the certificate has %d bytes", authority.Subject, len(authority.Raw))
		}
		sum := sha1.Sum(authority.Raw) //nolint:gosec // as above
		add(certificateObject, attributeTrue, attributeFalse, authority.Raw, x509Certificate, authority.RawIssuer, serial, authority.RawSubject, sum[:],
			attributeTrue, nil, nil)
		add(trustObject, attributeTrue, attributeFalse, nil, nil, authority.RawIssuer, serial, nil, nil, attributeTrue, trustedDelegator, sum[:])
	}
	return sqliteFile(certDBTable, certDBSchema, rows), nil
}

const (
	sqlitePage   = 32 << 10
	maxSQLiteRow = sqlitePage - 64 // longer rows would need pages of another kind
)

// sqliteField is a value of a row: its type and its bytes. The zero value is NULL.
type sqliteField struct {
	kind uint64
	data []byte
}

func sqliteBlob(data []byte) sqliteField {
	if data == nil {
		return sqliteField{}
	}
	return sqliteField{uint64(2*len(data) + 12), data}
}

func sqliteText(text string) sqliteField { return sqliteField{uint64(2*len(text) + 13), []byte(text)} }

// sqliteRow encodes a row with its number.
func sqliteRow(number int, fields ...sqliteField) []byte {
	header, body := []byte{}, []byte{}
	for _, field := range fields {
		header, body = appendVarint(header, field.kind), append(body, field.data...)
	}
	header = append([]byte{byte(len(header) + 1)}, header...) // few fields: the length has one byte
	row := appendVarint(nil, uint64(len(header)+len(body)))
	row = appendVarint(row, uint64(number))
	return append(append(row, header...), body...)
}

// appendVarint appends a number of at most 56 bits in SQLite's format.
func appendVarint(buf []byte, n uint64) []byte {
	for shift := (max(bits.Len64(n), 1) - 1) / 7 * 7; shift > 0; shift -= 7 {
		buf = append(buf, byte(n>>shift)|0x80)
	}
	return append(buf, byte(n)&0x7f)
}

// sqliteFile returns a database with one table, whose rows are numbered from 1.
func sqliteFile(table, schema string, rows [][]byte) []byte {
	header := make([]byte, 100)
	copy(header, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(header[16:], sqlitePage)
	copy(header[18:], []byte{1, 1, 0, 64, 32, 32})                                                // no write-ahead log, no reserved space, constants
	for offset, value := range map[int]uint32{24: 1, 40: 1, 44: 4, 56: 1, 92: 1, 96: 3_040_001} { // counters, format, UTF-8, version
		binary.BigEndian.PutUint32(header[offset:], value)
	}
	description := sqliteRow(1, sqliteText("table"), sqliteText(table), sqliteText(table), sqliteField{1, []byte{2}}, sqliteText(schema))
	pages := append([][]byte{sqliteBTree(header, 0, [][]byte{description})}, sqliteTable(rows)...)
	file := make([]byte, 0, len(pages)*sqlitePage)
	for _, page := range pages {
		file = append(file, page...)
	}
	binary.BigEndian.PutUint32(file[28:], uint32(len(pages)))
	return file
}

// sqliteTable returns the pages of a table, from page 2: the rows, if they fit in it, or
// else the numbers of the pages with the rows.
func sqliteTable(rows [][]byte) [][]byte {
	var leaves, index [][]byte
	size, first := 0, 0
	for i, row := range rows {
		if size += len(row) + 2; size > maxSQLiteRow {
			index = append(index, appendVarint(binary.BigEndian.AppendUint32(nil, uint32(len(leaves)+3)), uint64(i)))
			leaves = append(leaves, sqliteBTree(nil, 0, rows[first:i]))
			size, first = len(row)+2, i
		}
	}
	last := sqliteBTree(nil, 0, rows[first:])
	if len(leaves) == 0 {
		return [][]byte{last}
	}
	leaves = append(leaves, last)
	return append([][]byte{sqliteBTree(nil, uint32(len(leaves)+2), index)}, leaves...)
}

// sqliteBTree returns a page with cells after a header: rows or, if last is set, numbers of pages, of
// which last is one more.
func sqliteBTree(header []byte, last uint32, cells [][]byte) []byte {
	page := append(header, make([]byte, sqlitePage-len(header))...)
	node := page[len(header):]
	pointers := node[8:]
	node[0] = 13
	if last != 0 {
		node[0], pointers = 5, node[12:]
		binary.BigEndian.PutUint32(node[8:], last)
	}
	end := len(page)
	for i, cell := range cells {
		end -= len(cell)
		copy(page[end:], cell)
		binary.BigEndian.PutUint16(pointers[2*i:], uint16(end))
	}
	binary.BigEndian.PutUint16(node[3:], uint16(len(cells)))
	binary.BigEndian.PutUint16(node[5:], uint16(end))
	return page
}
