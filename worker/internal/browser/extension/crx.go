package extension

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// The format of CRX3 (components/crx_file in Chromium): magic, version and header length
// as little-endian numbers, the header as a protocol buffer, and a zip archive.
const (
	crxMagic     = "Cr24"
	crxVersion   = 3
	crxPrefix    = 12      // bytes before the header
	maxCRXHeader = 1 << 20 // bytes
	crxContext   = "CRX3 SignedData\x00"
	crxIDLength  = 16 // bytes

	rsaProofs   = 2     // fields of CrxFileHeader
	ecdsaProofs = 3     //
	signedData  = 10000 //
	proofKey    = 1     // fields of AsymmetricKeyProof
	proofSign   = 2     //
	signedCRXID = 1     // field of SignedData
)

var errCRXHeader = errors.New("its header is not valid")

// crxProof is a key with its signature of the package.
type crxProof struct {
	key, signature []byte
	ecdsa          bool
}

// readCRX returns the key of a CRX3 file, which has signed it, and where its archive
// begins. For a file of another kind the key is nil and the archive begins at 0.
func readCRX(file io.ReaderAt, size int64) (key []byte, archive int64, err error) {
	prefix := make([]byte, crxPrefix)
	if n, _ := file.ReadAt(prefix, 0); n < crxPrefix || !bytes.HasPrefix(prefix, []byte(crxMagic)) {
		return nil, 0, nil
	}
	version, length := binary.LittleEndian.Uint32(prefix[4:]), binary.LittleEndian.Uint32(prefix[8:])
	if version != crxVersion {
		return nil, 0, fmt.Errorf("its format is CRX%d; only CRX3 is supported", version)
	}
	archive = crxPrefix + int64(length)
	if length > maxCRXHeader || archive > size {
		return nil, 0, errCRXHeader
	}
	header := make([]byte, length)
	if _, err := file.ReadAt(header, crxPrefix); err != nil {
		return nil, 0, errCRXHeader
	}
	proofs, signed, err := parseCRXHeader(header)
	if err != nil {
		return nil, 0, err
	}
	id, err := bytesField(signed, signedCRXID)
	if err != nil || len(id) != crxIDLength {
		return nil, 0, errCRXHeader
	}
	for _, proof := range proofs {
		if sum := sha256.Sum256(proof.key); bytes.Equal(sum[:crxIDLength], id) {
			return proof.key, archive, proof.verify(signed, io.NewSectionReader(file, archive, size-archive))
		}
	}
	return nil, 0, errors.New("it has no signature of the key of its id")
}

// parseCRXHeader returns the signatures of a header and its signed data.
func parseCRXHeader(header []byte) (proofs []crxProof, signed []byte, err error) {
	err = eachField(header, func(number protowire.Number, value []byte) error {
		switch number {
		case rsaProofs, ecdsaProofs:
			key, err := bytesField(value, proofKey)
			if err != nil {
				return err
			}
			signature, err := bytesField(value, proofSign)
			proofs = append(proofs, crxProof{key: key, signature: signature, ecdsa: number == ecdsaProofs})
			return err
		case signedData:
			signed = value
		}
		return nil
	})
	return proofs, signed, err
}

// eachField calls visit for each field of a message that has bytes.
func eachField(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errCRXHeader
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return errCRXHeader
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := visit(number, value); err != nil {
				return err
			}
		}
		message = message[n:]
	}
	return nil
}

// bytesField returns the last value of a field; nil without one.
func bytesField(message []byte, field protowire.Number) (found []byte, err error) {
	err = eachField(message, func(number protowire.Number, value []byte) error {
		if number == field {
			found = value
		}
		return nil
	})
	return found, err
}

// verify checks the signature of the signed data and the archive.
func (p crxProof) verify(signed []byte, archive io.Reader) error {
	sum := sha256.New()
	if err := hashSigned(sum, signed, archive); err != nil {
		return err
	}
	errSignature := errors.New("its signature does not match its content")
	parsed, err := x509.ParsePKIXPublicKey(p.key)
	if err != nil {
		return fmt.Errorf("its key is not valid: %w", err)
	}
	switch key := parsed.(type) {
	case *rsa.PublicKey:
		if !p.ecdsa && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum.Sum(nil), p.signature) == nil {
			return nil
		}
	case *ecdsa.PublicKey:
		if p.ecdsa && ecdsa.VerifyASN1(key, sum.Sum(nil), p.signature) {
			return nil
		}
	}
	return errSignature
}

func hashSigned(sum hash.Hash, signed []byte, archive io.Reader) error {
	_, _ = sum.Write([]byte(crxContext)) // a hash returns no errors
	_, _ = sum.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(signed))))
	_, _ = sum.Write(signed)
	_, err := io.Copy(sum, archive)
	return err
}
