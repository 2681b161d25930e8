import java.io.FileInputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.TrustManagerFactory;
import org.apache.directory.api.ldap.model.cursor.SearchCursor;
import org.apache.directory.api.ldap.model.entry.Entry;
import org.apache.directory.api.ldap.model.message.SearchRequestImpl;
import org.apache.directory.api.ldap.model.message.SearchScope;
import org.apache.directory.api.ldap.model.message.controls.ManageDsaITImpl;
import org.apache.directory.api.ldap.model.name.Dn;
import org.apache.directory.ldap.client.api.LdapConnectionConfig;
import org.apache.directory.ldap.client.api.LdapNetworkConnection;

/** What Apache Directory Studio does when it opens a connection and browses, with the library that it does it with. */
public class Studio {
    /** PORT BIND_DN PASSWORD AUTHORITY: the certificate of the authority as PEM. */
    public static void main(String[] words) throws Exception {
        LdapConnectionConfig config = new LdapConnectionConfig();
        config.setLdapHost("localhost");
        config.setLdapPort(Integer.parseInt(words[0]));
        config.setUseTls(true);
        config.setName(words[1]);
        config.setCredentials(words[2]);
        config.setTimeout(60_000);
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream file = new FileInputStream(words[3])) {
            store.setCertificateEntry("pando", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        config.setTrustManagers(trust.getTrustManagers());
        try (LdapNetworkConnection connection = new LdapNetworkConnection(config)) {
            connection.bind();
            expect("TLS", connection.isSecured());
            Entry root = connection.getRootDse("*", "+");
            expect("namingContexts", root.contains("namingContexts", "dc=example,dc=com"));
            // The schema browser parses every definition; like Studio, without the library's own table of syntaxes.
            connection.loadSchemaRelaxed();
            expect("posixGroup", connection.getSchemaManager().getObjectClassRegistry().contains("posixGroup"));
            expect("memberOf", connection.getSchemaManager().getAttributeTypeRegistry().contains("memberOf"));
            int children = 0;
            SearchRequestImpl request = new SearchRequestImpl();
            request.setBase(new Dn("dc=example,dc=com"));
            request.setScope(SearchScope.ONELEVEL);
            request.setFilter("(objectClass=*)");
            request.addAttributes("hasSubordinates", "objectClass");
            // Referrals are entries to be shown.
            request.addControl(new ManageDsaITImpl());
            try (SearchCursor cursor = connection.search(request)) {
                while (cursor.next()) {
                    Entry child = cursor.getEntry();
                    expect(child.getDn() + ": hasSubordinates", child.containsAttribute("hasSubordinates"));
                    children++;
                }
            }
            expect(children + " children", children >= 9);
            Entry ahuber = connection.lookup("uid=ahuber,ou=people,dc=example,dc=com", "*", "+");
            expect("mail", ahuber.contains("mail", "ahuber@example.com"));
            expect("entryUUID", ahuber.containsAttribute("entryUUID"));
        }
        System.out.println("everything as expected");
    }

    private static void expect(String what, boolean found) {
        if (!found) {
            throw new AssertionError(what);
        }
    }
}
