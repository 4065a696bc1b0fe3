package scenario;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.UUID;
import svc.cloud.ApiException;
import svc.cloud.api.AuthenticationApi;
import svc.cloud.api.LicenseApi;
import svc.cloud.api.OrganizationsApi;
import svc.cloud.api.ProfilesApi;
import svc.cloud.api.WorkerIntegrationApi;
import svc.cloud.model.AuthorizeRequest;
import svc.cloud.model.AuthorizeResponse;
import svc.cloud.model.CreateProfileRequest;
import svc.cloud.model.RefusalReason;
import svc.cloud.model.SignInRequest;
import svc.worker.api.SessionsApi;
import svc.worker.model.BrowserSettings;
import svc.worker.model.ErrorCode;
import svc.worker.model.ErrorDetailCode;
import svc.worker.model.ErrorResponse;
import svc.worker.model.LaunchProfileRequest;
import svc.worker.model.LaunchSpec;
import svc.worker.model.SessionStatus;

/** Runs the common SDK scenario with the clients of openapi-generator. */
public final class Scenario {
  private static final Duration TIMEOUT = Duration.ofMinutes(1);
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  private final JsonNode seed;
  private final svc.cloud.ApiClient dashboard;
  private final svc.worker.ApiClient worker;

  private Scenario(JsonNode seed) {
    this.seed = seed;
    dashboard = cloud(null);
    worker = new svc.worker.ApiClient();
    worker.updateBaseUri(System.getenv("WORKER_URL"));
    worker.setReadTimeout(TIMEOUT);
    worker.setRequestInterceptor(request -> request.header("X-API-Key", seed.get("workerKey").asText()));
  }

  public static void main(String[] arguments) throws IOException, InterruptedException {
    JsonNode seed = new ObjectMapper().readTree(Files.readString(Path.of(System.getenv("SEED"))));
    try {
      new Scenario(seed).run();
    } catch (ApiException e) {
      throw new UnexpectedResponse("the cloud responded " + e.getCode() + " " + e.getResponseBody(), e);
    } catch (svc.worker.ApiException e) {
      throw new UnexpectedResponse("the worker responded " + e.getCode() + " " + e.getResponseBody(), e);
    }
  }

  private void run() throws ApiException, svc.worker.ApiException, JsonProcessingException, InterruptedException {
    signIn();
    UUID profile = createProfile();
    UUID reservation = authorize(profile);
    authorizeAtLimit();
    UUID session = launch(profile);
    launchInvalid(profile);
    kill(session);
    pageThroughProfiles();
    endReservation(profile, reservation);
    deleteProfile(profile);
    new AuthenticationApi(dashboard).signOut();
    ok("sign out");
  }

  private void signIn() throws ApiException {
    JsonNode owner = seed.get("owner");
    var request = new SignInRequest().email(owner.get("email").asText()).password(owner.get("password").asText());
    var signedIn = new AuthenticationApi(dashboard).signIn(request).getData();
    dashboard.setRequestInterceptor(call -> call.header("Authorization", "Bearer " + signedIn.getToken()));
    ok("sign in as %s until %s", signedIn.getUser().getEmail(), signedIn.getExpiresAt());

    var organization = new OrganizationsApi(dashboard).activateOrganization(uuid("organizationId"), null).getData();
    expect(organization.getActive(), organization);
    ok("activate organization %s as %s", organization.getSlug(), organization.getRole());
  }

  private UUID createProfile() throws ApiException {
    var request =
        new CreateProfileRequest()
            .name("Größe ✓")
            .browserVersion(seed.get("browserVersion").asInt())
            .notes("by the java client")
            .locale("de-DE");
    var profile = new ProfilesApi(dashboard).createProfile(request, null).getData();
    expect("Größe ✓".equals(profile.getName()) && "de-DE".equals(profile.getLocale()) && profile.getProxy() == null, profile);
    ok("create profile %s in version %d", profile.getId(), profile.getVersion());
    return profile.getId();
  }

  /** Reserves a slot and returns its session. */
  private UUID authorize(UUID profile) throws ApiException {
    UUID session = UUID.randomUUID();
    var request = authorizeRequest(profile).sessionId(session);
    var authorization = new LicenseApi(cloud(seed.get("organizationKey").asText())).authorizeLaunch(request, null).getData();
    expect(authorization.getAllowed() && authorization.getLimit() == null && authorization.getSlotId() != null, authorization);
    ok("authorize: allowed, %d in use, no limit", authorization.getCurrent());
    return session;
  }

  /** Requests a slot of the full organization and expects a refusal. */
  private void authorizeAtLimit() throws ApiException, JsonProcessingException {
    JsonNode full = seed.get("full");
    var license = new LicenseApi(cloud(full.get("organizationKey").asText()));
    try {
      var response = license.authorizeLaunch(authorizeRequest(UUID.fromString(full.get("profileId").asText())), null);
      throw new UnexpectedResponse("an authorize at the limit succeeded: " + response, null);
    } catch (ApiException refused) {
      expect(refused.getCode() == 402, refused);
      var authorization =
          svc.cloud.ApiClient.createDefaultObjectMapper()
              .readValue(refused.getResponseBody(), AuthorizeResponse.class)
              .getData();
      expect(!authorization.getAllowed() && authorization.getReason() == RefusalReason.CONCURRENCY_LIMIT, authorization);
      ok("authorize at the limit: %d, allowed %s, %s, %d of %d", refused.getCode(), authorization.getAllowed(), authorization.getReason(), authorization.getCurrent(), authorization.getLimit());
    }
  }

  private static AuthorizeRequest authorizeRequest(UUID profile) {
    return new AuthorizeRequest()
        .machineId("sdk-java")
        .bootId(UUID.randomUUID())
        .sessionId(UUID.randomUUID())
        .profileId(profile);
  }

  private UUID launch(UUID profile) throws svc.worker.ApiException {
    var sessions = new SessionsApi(worker);
    var request = new LaunchProfileRequest().profileId(profile).browser(new BrowserSettings().headless(true));
    var launched = sessions.launchProfile(request).getData();
    ok("launch session %s: %s", launched.getId(), launched.getStatus());

    var session = sessions.getBrowserSession(launched.getId()).getData();
    expect(session.getStatus() == SessionStatus.RUNNING && session.getEndedAt() == null, session);
    ok("read the session: Chromium %d, port %d", session.getBrowserVersion(), session.getDebugPort());
    return session.getId();
  }

  private void launchInvalid(UUID profile) throws svc.worker.ApiException, JsonProcessingException {
    try {
      var response = new SessionsApi(worker).launchProfile(new LaunchProfileRequest().profileId(profile).spec(new LaunchSpec()));
      throw new UnexpectedResponse("a launch of a profile and a spec succeeded: " + response, null);
    } catch (svc.worker.ApiException refused) {
      var error =
          svc.worker.ApiClient.createDefaultObjectMapper()
              .readValue(refused.getResponseBody(), ErrorResponse.class)
              .getError();
      expect(
          error.getCode() == ErrorCode.VALIDATION_ERROR
              && error.getDetails().stream()
                  .anyMatch(detail -> "profileId".equals(detail.getField()) && detail.getCode() == ErrorDetailCode.INVALID_UNION),
          error);
      var first = error.getDetails().get(0);
      ok("%s: %s %s", error.getCode(), first.getField(), first.getCode());
    }
  }

  private void kill(UUID session) throws svc.worker.ApiException {
    var killed = new SessionsApi(worker).killBrowserSession(session).getData();
    expect(killed.getStatus() == SessionStatus.KILLED, killed);
    ok("kill the session: %s, %s", killed.getStatus(), killed.getEndReason());
  }

  private void pageThroughProfiles() throws ApiException {
    var profiles = new ProfilesApi(dashboard);
    long seen = 0;
    boolean more = true;
    for (int page = 1; more; page++) {
      var list = profiles.listProfiles(page, 1, null, null, null, null, null, null).getData();
      seen += list.getItems().size();
      more = list.getPagination().getHasNext();
      expect(more || list.getPagination().getTotal() == seen, list);
    }
    ok("page through %d profiles, one a page", seen);
  }

  private void endReservation(UUID profile, UUID reservation) throws ApiException {
    var integration = new WorkerIntegrationApi(cloud(seed.get("organizationKey").asText()));
    var report = integration.endProfileSession(profile, reservation, null).getData();
    expect(reservation.equals(report.getSessionId()), report);
    ok("end the reservation");
  }

  /** Deletes the profile after the worker has reported the end of the session. */
  private void deleteProfile(UUID profile) throws ApiException, InterruptedException {
    for (int attempt = 0; ; attempt++) {
      try {
        new ProfilesApi(dashboard).deleteProfile(profile, null);
        ok("delete the profile");
        return;
      } catch (ApiException refused) {
        if (refused.getCode() != 409 || attempt == 100) {
          throw refused;
        }
        Thread.sleep(100);
      }
    }
  }

  private static svc.cloud.ApiClient cloud(String key) {
    var client = new svc.cloud.ApiClient();
    client.updateBaseUri(System.getenv("CLOUD_URL"));
    client.setReadTimeout(TIMEOUT);
    if (key != null) {
      client.setRequestInterceptor(request -> request.header("X-API-Key", key));
    }
    return client;
  }

  private UUID uuid(String field) {
    return UUID.fromString(seed.get(field).asText());
  }

  private static void ok(String format, Object... values) {
    OUT.printf("ok  " + format + "%n", values);
  }

  private static void expect(boolean condition, Object response) {
    if (!condition) {
      throw new UnexpectedResponse("unexpected response: " + response, null);
    }
  }

  /** An unexpected response. */
  private static final class UnexpectedResponse extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UnexpectedResponse(String message, Throwable cause) {
      super(message, cause);
    }
  }
}
