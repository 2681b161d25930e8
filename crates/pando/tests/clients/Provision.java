// Provisions users and a group with UnboundID's SCIM client, as an identity manager would: creates, finds, pages,
// changes members and values, meets conflicts, and deletes. Arguments: URL of the service, name, password.

import com.unboundid.scim2.client.ScimService;
import com.unboundid.scim2.common.exceptions.ResourceConflictException;
import com.unboundid.scim2.common.exceptions.PreconditionFailedException;
import com.unboundid.scim2.common.exceptions.ResourceNotFoundException;
import com.unboundid.scim2.common.filters.Filter;
import com.unboundid.scim2.common.messages.ListResponse;
import com.unboundid.scim2.common.messages.SortOrder;
import com.unboundid.scim2.common.types.Email;
import com.unboundid.scim2.common.types.GroupResource;
import com.unboundid.scim2.common.types.Member;
import com.unboundid.scim2.common.types.Name;
import com.unboundid.scim2.common.types.UserResource;
import jakarta.ws.rs.client.Client;
import jakarta.ws.rs.client.ClientBuilder;
import jakarta.ws.rs.client.ClientRequestFilter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.glassfish.jersey.apache5.connector.Apache5ConnectorProvider;
import org.glassfish.jersey.client.ClientConfig;

public class Provision {
    private interface Step {
        void run() throws Exception;
    }

    static void expect(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void fails(Class<? extends Exception> expected, String what, Step step) throws Exception {
        try {
            step.run();
        } catch (Exception error) {
            expect(expected.isInstance(error), what + ": " + error);
            return;
        }
        throw new AssertionError(what + " succeeded");
    }

    static UserResource user(ScimService service, String name) throws Exception {
        UserResource user = new UserResource().setUserName(name).setDisplayName(name.toUpperCase()).setActive(true);
        user.setName(new Name().setGivenName("Given " + name).setFamilyName("Family " + name));
        user.setEmails(new Email().setValue(name + "@example.com").setType("work").setPrimary(true));
        return service.create("Users", user);
    }

    public static void main(String[] words) throws Exception {
        ClientConfig config = new ClientConfig().connectorProvider(new Apache5ConnectorProvider());
        String both = words[1] + ":" + words[2];
        String basic = "Basic " + Base64.getEncoder().encodeToString(both.getBytes(StandardCharsets.UTF_8));
        Client client = ClientBuilder.newClient(config);
        client.register((ClientRequestFilter) request -> request.getHeaders().add("Authorization", basic));
        ScimService service = new ScimService(client.target(words[0]));

        expect(service.getServiceProviderConfig().getPatch().isSupported(), "PATCH is announced");
        expect(service.getResourceTypes().getTotalResults() == 2, "two types of resources");
        expect(service.getSchemas().getTotalResults() >= 2, "schemas");

        List<UserResource> users = new ArrayList<>();
        for (int number = 1; number <= 7; number++) {
            users.add(user(service, "person" + number));
        }
        UserResource first = users.get(0);
        expect(first.getId() != null && first.getMeta().getLocation() != null, "a created user has an id and a place");
        expect(service.retrieve(first).equals(first), "a user is read as it was created");
        fails(ResourceConflictException.class, "a second user of a name", () -> user(service, "person1"));

        ListResponse<UserResource> found = service.searchRequest("Users")
            .filter(Filter.eq("userName", "person3")).invoke(UserResource.class);
        expect(found.getTotalResults() == 1, "a filter finds one user");
        expect(found.getResources().get(0).getId().equals(users.get(2).getId()), "the filter's user");
        found = service.searchRequest("Users")
            .filter("emails[type eq \"work\" and value eq \"person4@example.com\"]").invoke(UserResource.class);
        expect(found.getTotalResults() == 1, "a filter on a mail address");
        List<String> names = new ArrayList<>();
        for (int at = 1; at <= 7; at += 3) {
            found = service.searchRequest("Users").filter(Filter.sw("userName", "person"))
                .sort("userName", SortOrder.ASCENDING).page(at, 3).invoke(UserResource.class);
            expect(found.getTotalResults() == 7 && found.getStartIndex() == at, "a page from " + at);
            found.forEach(user -> names.add(user.getUserName()));
        }
        expect(names.size() == 7 && names.get(6).equals("person7"), "pages have every user once: " + names);

        UserResource changed = service.modifyRequest(first).replaceValue("displayName", "Changed")
            .replaceValue("name.familyName", "Other").invoke();
        expect(changed.getDisplayName().equals("Changed"), "PATCH of a value");
        expect(changed.getName().getFamilyName().equals("Other"), "PATCH of a part of a value");
        fails(PreconditionFailedException.class, "a replacement of what has changed since",
            () -> service.replaceRequest(first).ifMatch().invoke());
        changed.setActive(false);
        changed.setTitle("Head");
        changed = service.replaceRequest(changed).ifMatch().invoke();
        expect(!changed.getActive() && changed.getTitle().equals("Head"), "a user is replaced and disabled");

        GroupResource group = service.create("Groups",
            new GroupResource().setDisplayName("staff").setMembers(new Member().setValue(users.get(1).getId())));
        for (UserResource user : users.subList(2, 5)) {
            group = service.modifyRequest(group).addValues("members", new Member().setValue(user.getId())).invoke();
        }
        expect(group.getMembers().size() == 4, "members are added");
        group = service.modifyRequest(group)
            .removeValues("members[value eq \"" + users.get(2).getId() + "\"]").invoke();
        expect(group.getMembers().size() == 3, "a member is removed");
        UserResource member = service.retrieve(users.get(3));
        expect(member.getGroups().get(0).getValue().equals(group.getId()), "a user has its groups");
        expect(service.searchRequest("Groups").filter(Filter.eq("displayName", "staff"))
            .invoke(GroupResource.class).getTotalResults() == 1, "a filter finds the group");

        service.delete(users.get(3));
        fails(ResourceNotFoundException.class, "a deleted user", () -> service.retrieve(users.get(3)));
        expect(service.retrieve(group).getMembers().size() == 2, "a deleted user is no member");
        service.delete(group);
        for (UserResource user : users) {
            if (user != users.get(3)) {
                service.delete(user);
            }
        }
        expect(service.searchRequest("Users").invoke(UserResource.class).getTotalResults() == 0, "nothing is left");
        System.out.println("everything as expected");
    }
}
