package rest

import (
	"context"

	"github.com/browser-svc/svc/gen/workerapi"
)

// CreateConsoleSession issues the console cookie.
func (s *Server) CreateConsoleSession(context.Context, workerapi.CreateConsoleSessionRequestObject) (workerapi.CreateConsoleSessionResponseObject, error) {
	cookie, expires, err := s.Console.NewCookie()
	if err != nil {
		return nil, err
	}
	return workerapi.CreateConsoleSession200JSONResponse{
		Body:    workerapi.ConsoleSessionResponse{Success: true, Data: workerapi.ConsoleSession{ExpiresAt: expires.UTC()}},
		Headers: workerapi.CreateConsoleSession200ResponseHeaders{SetCookie: cookie},
	}, nil
}

// DeleteConsoleSession removes the console cookie.
func (s *Server) DeleteConsoleSession(context.Context, workerapi.DeleteConsoleSessionRequestObject) (workerapi.DeleteConsoleSessionResponseObject, error) {
	return workerapi.DeleteConsoleSession200JSONResponse{
		Body:    workerapi.EmptyResponse{Success: true, Data: workerapi.Empty{}},
		Headers: workerapi.DeleteConsoleSession200ResponseHeaders{SetCookie: s.Console.NoCookie()},
	}, nil
}
