package extension_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// field returns a field of a protocol buffer.
func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// sign returns a CRX3 file of an archive.
func sign(t *testing.T, archive []byte, signer crypto.Signer) (file, id []byte) {
	t.Helper()
	key, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(key)
	signed := field(1, sum[:16])
	content := append([]byte("CRX3 SignedData\x00"), binary.LittleEndian.AppendUint32(nil, uint32(len(signed)))...)
	digest := sha256.Sum256(append(append(content, signed...), archive...))
	signature, err := signer.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	kind := protowire.Number(2)
	if _, ok := signer.(*ecdsa.PrivateKey); ok {
		kind = 3
	}
	header := append(field(kind, append(field(1, key), field(2, signature)...)), field(10000, signed)...)
	file = append([]byte("Cr24\x03\x00\x00\x00"), binary.LittleEndian.AppendUint32(nil, uint32(len(header)))...)
	return append(append(file, header...), archive...), sum[:16]
}

func TestAdd_CRX(t *testing.T) {
	s := open(t, t.TempDir())
	archive := pack(t, map[string]string{"manifest.json": plain})
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"RSA": rsaKey, "ECDSA": ecKey} {
		t.Run(name, func(t *testing.T) {
			file, id := sign(t, archive, key)
			var want strings.Builder
			for _, b := range id {
				want.WriteByte('a' + b>>4)
				want.WriteByte('a' + b&15)
			}
			if extension := add(t, s, file); extension.ChromiumID != want.String() {
				t.Errorf("Chromium id %s, want that of the key, %s", extension.ChromiumID, want.String())
			}
			for name, change := range map[string]func([]byte){
				"content":   func(f []byte) { f[len(f)-1] ^= 1 },
				"signature": func(f []byte) { f[bytes.Index(f, archive)-30] ^= 1 },
			} {
				damaged := bytes.Clone(file)
				change(damaged)
				if _, err := s.Add(t.Context(), bytes.NewReader(damaged)); err == nil || !strings.Contains(err.Error(), "request is not valid") {
					t.Errorf("damaged %s: error %v", name, err)
				}
			}
			for n := range bytes.Index(file, archive) { // a truncated header
				if _, err := s.Add(t.Context(), bytes.NewReader(file[:n])); err == nil {
					t.Fatalf("%d bytes were accepted", n)
				}
			}
		})
	}
}
