package rest

import (
	"context"

	"github.com/browser-svc/svc/cloud/internal/platform/contact"
	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/shared/httpd"
)

// Contact serves the Contact operations.
type Contact struct {
	Messages messages
}

type messages interface {
	Submit(ctx context.Context, m contact.Message) (contact.Receipt, error)
}

// CreateContactMessage implements the operation createContactMessage.
func (h Contact) CreateContactMessage(ctx context.Context, r cloudapi.CreateContactMessageRequestObject) (cloudapi.CreateContactMessageResponseObject, error) {
	receipt, err := h.Messages.Submit(ctx, contact.Message{
		Name: r.Body.Name, Email: string(r.Body.Email), Company: valueOr(r.Body.Company, ""),
		Subject: valueOr(r.Body.Subject, ""), Text: r.Body.Message, ClientAddress: httpd.ClientAddress(ctx),
	})
	if err != nil {
		return nil, err
	}
	return cloudapi.CreateContactMessage201JSONResponse{
		Body: cloudapi.ContactMessageResponse{
			Success: true, Data: cloudapi.ContactMessage{Id: receipt.ID, CreatedAt: receipt.CreatedAt},
		},
		Headers: cloudapi.CreateContactMessage201ResponseHeaders{Location: "/v1/contact/" + receipt.ID.String()},
	}, nil
}
