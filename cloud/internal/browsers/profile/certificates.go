package profile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/browser-svc/svc/shared/certs"
	"github.com/browser-svc/svc/shared/fault"
)

// ClientCertificate is a client certificate as returned to callers, without its key.
type ClientCertificate struct {
	ExpiresAt time.Time `json:"expiresAt"`
	Origin    string    `json:"origin"`
	Subject   string    `json:"subject"`
}

// decode returns the certificates of a new profile, or what is wrong with them.
func (s *Service) decode(ctx context.Context, list []certs.ClientInput) ([]certs.Client, []fault.Detail, error) {
	release, err := s.awaitDecryption(ctx, list)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	clients, problems := certs.DecodeClients(ctx, list)
	return clients, certificateDetails(problems), nil
}

// certificatesOf returns the certificates of a patch, or nil if it does not change them.
// Those that are kept have no key. No transaction may be open, because it may take
// seconds.
func (s *Service) certificatesOf(ctx context.Context, patch json.RawMessage) (*[]certs.Client, error) {
	var changes struct {
		ClientCertificates *[]certs.ClientInput `json:"clientCertificates"`
	}
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, fmt.Errorf("read the patch of the client certificates: %w", err)
	}
	if changes.ClientCertificates == nil {
		return nil, nil
	}
	release, err := s.awaitDecryption(ctx, *changes.ClientCertificates)
	if err != nil {
		return nil, err
	}
	defer release()
	clients, problems := certs.DecodeUpdate(ctx, *changes.ClientCertificates)
	if len(problems) > 0 {
		return nil, fault.Invalid(certificateDetails(problems)...)
	}
	return &clients, nil
}

// awaitDecryption waits until the list can be decrypted. Each decryption may use a process
// with much memory.
func (s *Service) awaitDecryption(ctx context.Context, list []certs.ClientInput) (release func(), err error) {
	if s.Decryptions == nil || !slices.ContainsFunc(list, certs.ClientInput.Encrypted) {
		return func() {}, nil
	}
	select {
	case s.Decryptions <- struct{}{}:
		return func() { <-s.Decryptions }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the decryption of keys: %w", ctx.Err())
	}
}

func certificateDetails(problems []certs.Problem) (details []fault.Detail) {
	for _, problem := range problems {
		details = append(details, fault.Detail{Field: "clientCertificates" + problem.Field, Code: fault.Custom, Message: problem.Message})
	}
	return details
}

// replaceCertificates stores the result of certificatesOf in the row; nil changes nothing.
func (r *row) replaceCertificates(s Sealer, certificates *[]certs.Client) ([]fault.Detail, error) {
	if certificates == nil {
		return nil, nil
	}
	stored, err := r.decryptCertificates(s)
	if err != nil {
		return nil, err
	}
	complete, problems := certs.Complete(*certificates, stored)
	if len(problems) > 0 {
		return certificateDetails(problems), nil
	}
	return nil, r.encryptCertificates(s, complete)
}

func (s *Service) copyCertificates(r, source *row) error {
	clients, err := source.decryptCertificates(s.Sealer)
	if err != nil {
		return err
	}
	return r.encryptCertificates(s.Sealer, clients)
}

// certificateData is associatedData of the client certificates.
func (r *row) certificateData() []byte {
	return append(r.associatedData(), "client_certificate_secret"...)
}

// encryptCertificates stores the certificates in the row.
func (r *row) encryptCertificates(s Sealer, clients []certs.Client) error {
	r.Certificates, r.ClientSecret = nil, nil
	if len(clients) == 0 {
		return nil
	}
	certificates := make([]ClientCertificate, len(clients))
	for i, client := range clients {
		certificates[i].Origin = client.Origin
		certificates[i].Subject, certificates[i].ExpiresAt = client.Public()
	}
	public, err := json.Marshal(certificates)
	if err != nil {
		return fmt.Errorf("write the client certificates of profile %s: %w", r.ID, err)
	}
	plain, err := json.Marshal(clients)
	if err != nil {
		return fmt.Errorf("write the client certificates of profile %s: %w", r.ID, err)
	}
	if r.ClientSecret, err = s.Seal(plain, r.certificateData()); err != nil {
		return fmt.Errorf("encrypt the client certificates of profile %s: %w", r.ID, err)
	}
	r.Certificates = new(string(public))
	return nil
}

// decryptCertificates returns the certificates with their keys; nil for none.
func (r *row) decryptCertificates(s Sealer) (clients []certs.Client, err error) {
	if r.ClientSecret == nil {
		return nil, nil
	}
	plain, err := s.Open(r.ClientSecret, r.certificateData())
	if err != nil {
		return nil, fmt.Errorf("decrypt the client certificates of profile %s: %w", r.ID, err)
	}
	if err := json.Unmarshal(plain, &clients); err != nil { // never contains the text
		return nil, fmt.Errorf("read the client certificates of profile %s: %w", r.ID, err)
	}
	return clients, nil
}
