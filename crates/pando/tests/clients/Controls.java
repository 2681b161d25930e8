import com.unboundid.asn1.ASN1Element;
import com.unboundid.asn1.ASN1Integer;
import com.unboundid.asn1.ASN1OctetString;
import com.unboundid.asn1.ASN1Sequence;
import com.unboundid.asn1.ASN1Set;
import com.unboundid.ldap.sdk.AddRequest;
import com.unboundid.ldap.sdk.CompareRequest;
import com.unboundid.ldap.sdk.Control;
import com.unboundid.ldap.sdk.DeleteRequest;
import com.unboundid.ldap.sdk.Entry;
import com.unboundid.ldap.sdk.ExtendedRequest;
import com.unboundid.ldap.sdk.LDAPConnection;
import com.unboundid.ldap.sdk.LDAPException;
import com.unboundid.ldap.sdk.LDAPRequest;
import com.unboundid.ldap.sdk.LDAPResult;
import com.unboundid.ldap.sdk.Modification;
import com.unboundid.ldap.sdk.ModificationType;
import com.unboundid.ldap.sdk.ModifyDNRequest;
import com.unboundid.ldap.sdk.ModifyRequest;
import com.unboundid.ldap.sdk.ResultCode;
import com.unboundid.ldap.sdk.SearchRequest;
import com.unboundid.ldap.sdk.SearchResult;
import com.unboundid.ldap.sdk.SearchScope;
import com.unboundid.ldap.sdk.UpdatableLDAPRequest;
import com.unboundid.ldap.sdk.controls.*;
import com.unboundid.ldap.sdk.experimental.*;
import com.unboundid.ldap.sdk.extensions.*;
import com.unboundid.ldap.sdk.schema.Schema;
import com.unboundid.ldap.sdk.unboundidds.controls.*;
import com.unboundid.ldap.sdk.unboundidds.extensions.*;

/**
 * Calls controls and extended operations with the SDK's own classes, which decode the answers too, and those without a
 * class by their OID. Arguments: PORT BIND_DN PASSWORD. The directory has the tree of the tests, keeps deleted entries,
 * and lets entries be dynamic.
 */
public class Controls {
    private static final String SUFFIX = "dc=example,dc=com";
    private static final String PEOPLE = "ou=people," + SUFFIX;
    private static final String ANNA = "uid=anna," + PEOPLE;
    private static final String BERT = "uid=bert," + PEOPLE;

    private static LDAPConnection connection;

    public static void main(String[] words) throws Exception {
        connection = new LDAPConnection("127.0.0.1", Integer.parseInt(words[0]), words[1], words[2]);
        try {
            searches();
            counts();
            changesWithoutEffect();
            relaxedRules();
            assertionsAndReads();
            transactions();
            extendedOperations(Integer.parseInt(words[0]));
            deletedEntries();
            requestsByOid();
            schemaChanges();
        } finally {
            connection.close();
        }
        System.out.println("everything as expected");
    }

    /** Controls that choose entries and attributes. */
    private static void searches() throws Exception {
        SearchRequest anna = search("(uid=anna)", "*", "+");
        expect("all attributes", has(one(anna), "uid", "entryUUID", "memberOf", "entryDN"), "1111");
        expect("stored", has(one(with(anna, new RealAttributesOnlyRequestControl())), "uid", "memberOf"), "10");
        expect("computed", has(one(with(anna, new VirtualAttributesOnlyRequestControl())), "uid", "memberOf"), "01");
        expect("no copy", one(with(anna, new DontUseCopyRequestControl())).getDN(), ANNA);

        Entry subentry = new Entry("cn=sub," + SUFFIX);
        subentry.addAttribute("objectClass", "subentry", "collectiveAttributeSubentry");
        subentry.addAttribute("subtreeSpecification", "{}");
        subentry.addAttribute("c-l", "Vienna");
        connection.add(subentry);
        SearchRequest all = search("(objectClass=*)", "1.1");
        SearchResult found = connection.search(with(all, new DraftLDUPSubentriesRequestControl(true)));
        expect("subentries of the draft", found.getEntryCount() + " " + found.getSearchEntries().get(0).getDN(),
            "1 cn=sub," + SUFFIX);
        found = connection.search(with(all, new RFC3672SubentriesRequestControl(true, true)));
        expect("subentries of RFC 3672", found.getEntryCount(), 1);
        expect("collective value", one(search("(uid=anna)", "c-l")).getAttributeValue("c-l"), "Vienna");
        connection.delete("cn=sub," + SUFFIX);

        SearchRequest values = search("(cn=staff)", "member");
        values = with(values, new MatchedValuesRequestControl(true,
            MatchedValuesFilter.createEqualityFilter("member", ANNA)));
        expect("matched values", one(values).getAttributeValues("member").length, 1);
        expect("chain", one(search("(memberOf:1.2.840.113556.1.4.1941:=cn=staff,ou=groups," + SUFFIX + ")", "uid"), 2)
            .hasAttribute("uid"), true);
    }

    private static void counts() throws Exception {
        SearchRequest people = search("(objectClass=person)", "1.1");
        SearchResult found = connection.search(with(people, new MatchingEntryCountRequestControl()));
        MatchingEntryCountResponseControl count = MatchingEntryCountResponseControl.get(found);
        expect("count", count.getCountType() + " " + count.getCountValue() + " of " + found.getEntryCount(),
            "EXAMINED_COUNT 2 of 0");
    }

    private static void changesWithoutEffect() throws Exception {
        Control noOp = new DraftZeilengaLDAPNoOp12RequestControl();
        String below = "ou=none," + SUFFIX;
        AddRequest add = new AddRequest("dn: " + below, "objectClass: organizationalUnit");
        for (UpdatableLDAPRequest request : new UpdatableLDAPRequest[] {
            add, modify(ANNA, "title", "None"), new DeleteRequest(BERT), new ModifyDNRequest(BERT, "uid=ben", true),
        }) {
            request.addControl(noOp);
            expect("no operation", code(request), ResultCode.NO_OPERATION);
        }
        expect("nothing added", connection.getEntry(below) == null, true);
        expect("nothing changed", connection.getEntry(ANNA).hasAttribute("title"), false);
        expect("nothing deleted", connection.getEntry(BERT) != null, true);
        // A value that is there, and one that is not.
        ModifyRequest again = new ModifyRequest(ANNA, new Modification(ModificationType.ADD, "sn", "anna"),
            new Modification(ModificationType.DELETE, "sn", "other"));
        expect("strict", code(again), ResultCode.ATTRIBUTE_OR_VALUE_EXISTS);
        again.addControl(new PermissiveModifyRequestControl());
        expect("permissive", code(again), ResultCode.SUCCESS);
    }

    private static void relaxedRules() throws Exception {
        AddRequest add = new AddRequest("dn: ou=old," + SUFFIX, "objectClass: organizationalUnit",
            "createTimestamp: 20060101000000Z");
        expect("strict", code(add), ResultCode.CONSTRAINT_VIOLATION);
        add.addControl(new DraftZeilengaLDAPRelaxRules03RequestControl());
        expect("relaxed", code(add), ResultCode.SUCCESS);
        Entry old = connection.getEntry("ou=old," + SUFFIX, "createTimestamp");
        expect("createTimestamp", old.getAttributeValue("createTimestamp"), "20060101000000Z");
    }

    private static void assertionsAndReads() throws Exception {
        ModifyRequest change = modify(ANNA, "title", "Engineer");
        change.addControl(new AssertionRequestControl("(title=*)"));
        expect("assertion", code(change), ResultCode.ASSERTION_FAILED);
        change = modify(ANNA, "title", "Engineer");
        change.addControl(new AssertionRequestControl("(!(title=*))"));
        change.addControl(new PreReadRequestControl(true, "title", "uid"));
        change.addControl(new PostReadRequestControl(true, "title"));
        LDAPResult done = connection.modify(change);
        expect("before", PreReadResponseControl.get(done).getEntry().getAttributeValue("uid"), "anna");
        expect("title before", PreReadResponseControl.get(done).getEntry().hasAttribute("title"), false);
        expect("after", PostReadResponseControl.get(done).getEntry().getAttributeValue("title"), "Engineer");
        CompareRequest compare = new CompareRequest(ANNA, "title", "engineer");
        compare.addControl(new AssertionRequestControl("(title=none)"));
        expect("compare", code(compare), ResultCode.ASSERTION_FAILED);
    }

    private static void transactions() throws Exception {
        for (boolean commits : new boolean[] {true, false}) {
            ASN1OctetString id = started();
            String unit = "ou=unit-" + commits + "," + SUFFIX;
            AddRequest add = new AddRequest("dn: " + unit, "objectClass: organizationalUnit");
            add.addControl(new TransactionSpecificationRequestControl(id));
            add.addControl(new PostReadRequestControl(true, "entryUUID"));
            expect("change of a transaction", code(add), ResultCode.SUCCESS);
            ModifyRequest change = modify(unit, "description", "both");
            change.addControl(new TransactionSpecificationRequestControl(id));
            change.addControl(new AssertionRequestControl("(!(description=*))"));
            change.addControl(new PreReadRequestControl(true, "ou"));
            expect("change of a transaction", code(change), ResultCode.SUCCESS);
            expect("before the end", connection.getEntry(unit) == null, true);
            EndTransactionExtendedResult end = ended(id, commits);
            expect("end", end.getResultCode(), ResultCode.SUCCESS);
            expect("commit", connection.getEntry(unit) != null, commits);
            if (commits) {
                Control[] ofAdd = end.getOperationResponseControls(add.getLastMessageID());
                Control[] ofModify = end.getOperationResponseControls(change.getLastMessageID());
                expect("read after the add", ofAdd[0] instanceof PostReadResponseControl, true);
                PreReadResponseControl before = (PreReadResponseControl) ofModify[0];
                expect("read before the modify", before.getEntry().getAttributeValue("ou"), "unit-true");
            }
        }
        ASN1OctetString id = started();
        DeleteRequest delete = new DeleteRequest(BERT);
        delete.addControl(new TransactionSpecificationRequestControl(id));
        code(delete);
        ModifyRequest failing = modify("ou=nowhere," + SUFFIX, "description", "x");
        failing.addControl(new TransactionSpecificationRequestControl(id));
        code(failing);
        EndTransactionExtendedResult end = ended(id, true);
        expect("end", end.getResultCode(), ResultCode.NO_SUCH_OBJECT);
        expect("the change that fails", end.getFailedOpMessageID(), failing.getLastMessageID());
        expect("nothing is deleted", connection.getEntry(BERT) != null, true);
    }

    private static void extendedOperations(int port) throws Exception {
        GetConnectionIDExtendedResult own =
            (GetConnectionIDExtendedResult) connection.processExtendedOperation(new GetConnectionIDExtendedRequest());
        try (LDAPConnection other = new LDAPConnection("127.0.0.1", port)) {
            GetConnectionIDExtendedResult later =
                (GetConnectionIDExtendedResult) other.processExtendedOperation(new GetConnectionIDExtendedRequest());
            boolean isLater = own.getConnectionID() > 0 && later.getConnectionID() > own.getConnectionID();
            expect("connection ids", isLater, true);
        }
        WhoAmIExtendedResult who =
            (WhoAmIExtendedResult) connection.processExtendedOperation(new WhoAmIExtendedRequest());
        expect("who am I", who.getAuthorizationID().startsWith("dn:"), true);
        PasswordModifyExtendedResult password = (PasswordModifyExtendedResult) connection.processExtendedOperation(
            new PasswordModifyExtendedRequest("dn:" + ANNA, (String) null, (String) null));
        expect("new password", password.getResultCode(), ResultCode.SUCCESS);
        try (LDAPConnection user = new LDAPConnection("127.0.0.1", port, ANNA, password.getGeneratedPassword())) {
            who = (WhoAmIExtendedResult) user.processExtendedOperation(new WhoAmIExtendedRequest());
            expect("bind with the new password", who.getAuthorizationID(), "dn:" + ANNA);
        }
    }

    /** Active Directory's control has no class; the DN of the result says that the entry is a deleted one. */
    private static void deletedEntries() throws Exception {
        connection.add("dn: cn=lost," + SUFFIX, "objectClass: groupOfNames", "member: " + ANNA, "member: " + BERT);
        connection.delete("cn=lost," + SUFFIX);
        Control shows = new Control("1.2.840.113556.1.4.417", true);
        String ofBert = "(&(isDeleted=TRUE)(member=" + BERT + "))";
        for (String filter : new String[] {"(cn=lost)", "(member=" + ANNA + ")", ofBert}) {
            SearchResult found = connection.search(with(search(filter, "*", "entryUUID", "isDeleted"), shows));
            Entry last = found.getSearchEntries().get(found.getEntryCount() - 1);
            expect("deleted", has(last, "isDeleted", "member") + last.getAttributeValues("member").length, "112");
            expect("other entries", found.getEntryCount(), filter.startsWith("(member") ? 2 : 1);
        }
        Entry lost = one(with(search("(cn=lost)", "entryUUID"), shows));
        java.util.UUID uuid = java.util.UUID.fromString(lost.getAttributeValue("entryUUID"));
        byte[] octets = java.nio.ByteBuffer.allocate(16).putLong(uuid.getMostSignificantBits())
            .putLong(uuid.getLeastSignificantBits()).array();
        ASN1OctetString value = new ASN1OctetString(new ASN1Sequence(new ASN1OctetString(octets)).encode());
        expect("undelete", extended("1.3.6.1.4.1.99999.5.5", value).getResultCode(), ResultCode.SUCCESS);
        expect("again", connection.getEntry("cn=lost," + SUFFIX).getAttributeValues("member").length, 2);
    }

    /** Requests for which the SDK has no class. */
    private static void requestsByOid() throws Exception {
        ModifyRequest lazy = modify(ANNA, "title", "Lazy");
        lazy.addControl(new Control("1.2.840.113556.1.4.619", true));
        expect("lazy commit", code(lazy), ResultCode.SUCCESS);
        ASN1OctetString options = new ASN1OctetString(new ASN1Sequence(new ASN1Integer(1)).encode());
        Control scope = new Control("1.2.840.113556.1.4.1340", true, options);
        expect("search options", one(with(search("(uid=anna)", "uid"), scope)).getDN(), ANNA);

        Control whatFailed = new Control("1.3.6.1.4.1.4203.666.5.17", true);
        DeleteRequest refused = new DeleteRequest(ANNA);
        refused.setControls(new Control("1.2.3.4", true), whatFailed);
        try {
            connection.delete(refused);
            throw new AssertionError("an unknown critical control was accepted");
        } catch (LDAPException error) {
            expect("refusal", error.getResultCode(), ResultCode.UNAVAILABLE_CRITICAL_EXTENSION);
            Control named = error.toLDAPResult().getResponseControl("1.3.6.1.4.1.4203.666.5.17");
            ASN1Set oids = ASN1Set.decodeAsSet(named.getValue().getValue());
            expect("what failed", oids.elements()[0].decodeAsOctetString().stringValue(), "1.2.3.4");
        }

        Control counts = new Control("1.3.6.1.4.1.4203.666.5.18", true);
        SearchResult found = connection.search(with(search("(objectClass=person)", "1.1"), counts));
        Control count = found.getResponseControl("1.3.6.1.4.1.4203.666.5.18");
        ASN1Element[] fields = ASN1Sequence.decodeAsSequence(count.getValue().getValue()).elements();
        expect("search no-op", found.getEntryCount() + " " + fields[1].decodeAsInteger().intValue(), "0 2");

        connection.modify(modify(ANNA, "userPassword", "anna-secret"));
        for (String password : new String[] {"anna-secret", "other"}) {
            ASN1OctetString credentials = new ASN1OctetString(new ASN1Sequence(
                new ASN1OctetString(ANNA), new ASN1OctetString((byte) 0x80, password)).encode());
            ResultCode expected = password.equals("other") ? ResultCode.INVALID_CREDENTIALS : ResultCode.SUCCESS;
            expect("verified", extended("1.3.6.1.4.1.4203.666.6.5", credentials).getResultCode(), expected);
        }

        connection.add("dn: cn=meeting," + SUFFIX, "objectClass: device", "objectClass: dynamicObject");
        ASN1OctetString refresh = new ASN1OctetString(new ASN1Sequence(
            new ASN1OctetString((byte) 0x80, "cn=meeting," + SUFFIX), new ASN1Integer((byte) 0x81, 5000)).encode());
        expect("refresh", extended("1.3.6.1.4.1.1466.101.119.1", refresh).getResultCode(), ResultCode.SUCCESS);
        int left = connection.getEntry("cn=meeting," + SUFFIX, "entryTtl").getAttributeValueAsInteger("entryTtl");
        expect("entryTtl", left > 0 && left <= 5000, true);
    }

    /** The schema is changed by modifications of its subentry, and read again. */
    private static void schemaChanges() throws Exception {
        String type = "( 1.3.6.1.4.1.32473.1.77 NAME 'badgeColor' EQUALITY caseIgnoreMatch "
            + "SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )";
        String oc = "( 1.3.6.1.4.1.32473.2.77 NAME 'badgeHolder' SUP top AUXILIARY MAY badgeColor )";
        String subentry = connection.getRootDSE().getSubschemaSubentryDN();
        expect("before", Schema.getSchema(connection).getAttributeType("badgeColor") == null, true);
        connection.modify(subentry, new Modification(ModificationType.ADD, "attributeTypes", type),
            new Modification(ModificationType.ADD, "objectClasses", oc));
        Schema schema = Schema.getSchema(connection);
        expect("type", schema.getAttributeType("badgeColor").getOID(), "1.3.6.1.4.1.32473.1.77");
        expect("class", schema.getObjectClass("badgeHolder").getOptionalAttributes()[0], "badgeColor");
        connection.modify(ANNA, new Modification(ModificationType.ADD, "objectClass", "badgeHolder"),
            new Modification(ModificationType.ADD, "badgeColor", "Red"));
        expect("filter", one(search("(badgeColor=red)", "badgeColor")).getAttributeValue("badgeColor"), "Red");
        ModifyRequest removal = new ModifyRequest(subentry,
            new Modification(ModificationType.DELETE, "objectClasses", oc),
            new Modification(ModificationType.DELETE, "attributeTypes", type));
        expect("used", code(removal), ResultCode.CONSTRAINT_VIOLATION);
        connection.modify(ANNA, new Modification(ModificationType.DELETE, "objectClass", "badgeHolder"),
            new Modification(ModificationType.DELETE, "badgeColor"));
        expect("unused", code(removal), ResultCode.SUCCESS);
        expect("after", Schema.getSchema(connection).getAttributeType("badgeColor") == null, true);
    }

    private static LDAPResult extended(String oid, ASN1OctetString value) throws LDAPException {
        return connection.processExtendedOperation(new ExtendedRequest(oid, value));
    }

    private static ASN1OctetString started() throws LDAPException {
        StartTransactionExtendedResult start = (StartTransactionExtendedResult)
            connection.processExtendedOperation(new StartTransactionExtendedRequest());
        expect("start", start.getResultCode(), ResultCode.SUCCESS);
        return start.getTransactionID();
    }

    private static EndTransactionExtendedResult ended(ASN1OctetString id, boolean commits) throws LDAPException {
        return (EndTransactionExtendedResult)
            connection.processExtendedOperation(new EndTransactionExtendedRequest(id, commits));
    }

    private static SearchRequest search(String filter, String... attributes) throws LDAPException {
        return new SearchRequest(SUFFIX, SearchScope.SUB, filter, attributes);
    }

    private static SearchRequest with(SearchRequest request, Control... controls) {
        SearchRequest copy = request.duplicate();
        copy.setControls(controls);
        return copy;
    }

    private static Entry one(SearchRequest request) throws LDAPException {
        return one(request, 1);
    }

    private static Entry one(SearchRequest request, int count) throws LDAPException {
        SearchResult found = connection.search(request);
        expect("entries of " + request, found.getEntryCount(), count);
        return found.getSearchEntries().get(0);
    }

    private static ModifyRequest modify(String dn, String attribute, String value) {
        return new ModifyRequest(dn, new Modification(ModificationType.REPLACE, attribute, value));
    }

    private static ResultCode code(LDAPRequest request) throws LDAPException {
        try {
            if (request instanceof AddRequest) return connection.add((AddRequest) request).getResultCode();
            if (request instanceof ModifyRequest) return connection.modify((ModifyRequest) request).getResultCode();
            if (request instanceof DeleteRequest) return connection.delete((DeleteRequest) request).getResultCode();
            if (request instanceof CompareRequest) return connection.compare((CompareRequest) request).getResultCode();
            return connection.modifyDN((ModifyDNRequest) request).getResultCode();
        } catch (LDAPException error) {
            return error.getResultCode();
        }
    }

    /** Returns 1 for each attribute that an entry has, and 0 for others. */
    private static String has(Entry entry, String... names) {
        StringBuilder found = new StringBuilder();
        for (String name : names) found.append(entry.hasAttribute(name) ? 1 : 0);
        return found.toString();
    }

    private static void expect(String what, Object found, Object expected) {
        if (!found.equals(expected)) throw new AssertionError(what + ": " + found + " in place of " + expected);
    }
}
