package rest

import (
	"context"
	"io"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
)

// Extensions stores the extensions of this worker.
type Extensions interface {
	Add(ctx context.Context, packed io.Reader) (extension.Extension, error)
	Get(id string) (extension.Extension, error)
	List() []extension.Extension
	Delete(id string) error
}

// CreateExtension stores an extension.
func (s *Server) CreateExtension(ctx context.Context, r workerapi.CreateExtensionRequestObject) (workerapi.CreateExtensionResponseObject, error) {
	extension, err := s.Extensions.Add(ctx, r.Body)
	if err != nil {
		return nil, err
	}
	return workerapi.CreateExtension201JSONResponse{
		Body:    workerapi.ExtensionResponse{Success: true, Data: extensionToAPI(extension)},
		Headers: workerapi.CreateExtension201ResponseHeaders{Location: s.Links.Address.Path("/extensions/" + extension.ID)},
	}, nil
}

// ListExtensions lists the extensions.
func (s *Server) ListExtensions(context.Context, workerapi.ListExtensionsRequestObject) (workerapi.ListExtensionsResponseObject, error) {
	items := []workerapi.Extension{}
	for _, e := range s.Extensions.List() {
		items = append(items, extensionToAPI(e))
	}
	return workerapi.ListExtensions200JSONResponse{Success: true, Data: workerapi.ExtensionList{Items: items}}, nil
}

// GetExtension returns an extension.
func (s *Server) GetExtension(_ context.Context, r workerapi.GetExtensionRequestObject) (workerapi.GetExtensionResponseObject, error) {
	found, err := s.Extensions.Get(r.ExtensionId)
	if err != nil {
		return nil, err
	}
	return workerapi.GetExtension200JSONResponse{Success: true, Data: extensionToAPI(found)}, nil
}

// DeleteExtension deletes an extension.
func (s *Server) DeleteExtension(_ context.Context, r workerapi.DeleteExtensionRequestObject) (workerapi.DeleteExtensionResponseObject, error) {
	if err := s.Extensions.Delete(r.ExtensionId); err != nil {
		return nil, err
	}
	return workerapi.DeleteExtension200JSONResponse{Success: true, Data: workerapi.Empty{}}, nil
}

func extensionToAPI(e extension.Extension) workerapi.Extension {
	return workerapi.Extension{
		Id: e.ID, ChromiumId: e.ChromiumID, Name: e.Name, Version: e.Version, ManifestVersion: int32(e.ManifestVersion),
		SizeBytes: e.Size, CreatedAt: e.CreatedAt,
	}
}
